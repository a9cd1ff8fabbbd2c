"""Training: settings checked and resolved, the loop, checkpoints, one process or many."""

from cacr.training.dry_run import dry_run
from cacr.training.pretrain import Outcome, pretrain
from cacr.training.recipes import RECIPES
from cacr.training.run_folder import RunFolder

__all__ = ["RECIPES", "Outcome", "RunFolder", "dry_run", "pretrain"]
