"""The ELEVATER protocol with a few labels per class; the whole network is trained."""

from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.network_learner import NetworkLearner
from cacr.evaluation.protocols.fewshot import FewShotSettings, few_labels
from cacr.evaluation.registry import PROTOCOLS, Score


@PROTOCOLS.register("fewshot-finetune")
def fewshot_finetune(task: Task, settings: FewShotSettings) -> Score:
    """ELEVATER: the whole network, five labels per class, three draws, with a search for settings."""
    return few_labels(task, settings, NetworkLearner)
