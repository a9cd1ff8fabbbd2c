"""The ELEVATER protocol with all training labels; the whole network is trained."""

from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.network_learner import NetworkLearner
from cacr.evaluation.protocols.transfer import TransferSettings, all_labels
from cacr.evaluation.registry import PROTOCOLS, Score


@PROTOCOLS.register("transfer-finetune")
def transfer_finetune(task: Task, settings: TransferSettings) -> Score:
    """ELEVATER: the whole network, all training labels, with a search for settings."""
    return all_labels(task, settings, NetworkLearner)
