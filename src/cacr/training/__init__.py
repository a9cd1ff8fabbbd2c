"""Training: settings checked and resolved, the loop, checkpoints, one process or many."""

from cacr.training.launch import is_first_process
from cacr.training.pretrain import Outcome, pretrain
from cacr.training.run_folder import RunFolder

__all__ = ["Outcome", "RunFolder", "is_first_process", "pretrain"]
