"""Training: settings checked and resolved, the loop, checkpoints, one process or many."""

from cacr.training.dry_run import dry_run
from cacr.training.pretrain import Outcome, pretrain
from cacr.training.recipes import RECIPES

__all__ = ["RECIPES", "Outcome", "dry_run", "pretrain"]
