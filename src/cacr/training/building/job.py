"""The objects of the training loop, and the position of a run."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

import cacr
from cacr.config import FORMAT, ResolvedSettings
from cacr.data import Loader
from cacr.errors import UserError
from cacr.frameworks import Framework
from cacr.runs.checkpoint import load_optimizer, require_fit
from cacr.runs.folder import RunFolder
from cacr.shell import shell_words
from cacr.training.building.checkpoints import State
from cacr.training.optimization.average import Average
from cacr.training.optimization.schedules import Schedule
from cacr.training.processes.fabric import Fabric, FabricModule
from cacr.views import Views


@dataclass
class Position:
    """Position of a run: total optimiser steps, complete epochs, and batches of the current epoch."""

    step: int = 0
    epoch: int = 0
    batch: int = 0

    @property
    def epoch_ended(self) -> bool:
        """Whether the last step was the last of an epoch."""
        return self.batch == 0 and self.step > 0

    def advance(self, batches: int, batches_per_epoch: int) -> None:
        """Move by one step of ``batches`` batches."""
        self.step += 1
        self.batch += batches
        if self.batch >= batches_per_epoch:
            self.epoch, self.batch = self.epoch + 1, 0


@dataclass(frozen=True)
class Training:
    """All objects of the training loop.

    Attributes:
        method: the framework with its encoder.
        model: the same, wrapped for the device, the precision and the other processes.
        total_steps: optimiser steps of the whole run.
        features: (views, images, feature_dim) of all images, if the image encoder is not trained.
        average: moving average of the weights, which is measured and saved instead of them; None for no average.
        notes: notes for the user on how this was built.
    """

    fabric: Fabric
    settings: ResolvedSettings
    run: RunFolder
    loader: Loader
    views: Views
    method: Framework
    model: FabricModule
    optimizer: Optimizer
    schedule: Schedule
    total_steps: int
    features: Tensor | None = None
    average: Average | None = None
    notes: tuple[str, ...] = ()

    def kept_weights(self) -> AbstractContextManager[None]:
        """Context manager: the model has the weights that are measured and saved."""
        return nullcontext() if self.average is None else self.average.in_place()

    def set_rates(self, position: Position) -> float:
        """Set the learning rates of the next step; return the scheduled rate."""
        lr, share = self.settings.lr, self.schedule(position.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group["factor"] * (share if group["scheduled"] else 1.0)
        return lr * share

    def epochs(self, position: Position) -> float:
        """Number of epochs, including the share of the current one."""
        return round(position.epoch + position.batch / self.loader.batches_per_epoch, 4)

    def state(self, position: Position) -> State:
        """All that a resumed run needs. Random states follow from the position and are not stored."""
        return {
            "format": FORMAT,
            "images": len(self.loader.source),
            "step": position.step,
            "epoch": position.epoch,
            "batch": position.batch,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": {} if self.average is None else dict(self.average.state()),
        }

    def summary(self, position: Position) -> dict[str, Any]:
        """Facts that are stored with the encoder and with every number measured on it."""
        settings = self.settings
        return {
            "data": settings.data,
            "imbalance": settings.imbalance,
            "images": len(self.loader.source),
            "views": settings.views,
            "batch_size": settings.batch_size,
            "epochs": settings.epochs,
            "steps": position.step,
            "finished": position.step == self.total_steps,
            "method": settings.method,
            "framework": settings.framework,
            "framework_options": settings.framework_options,
            "objective": settings.objective,
            "objective_options": settings.objective_options,
            "precision": settings.precision,
            "processes": self.fabric.world_size,
            "seed": settings.seed,
            "cacr": cacr.__version__,
        }

    def restore(self, state: State) -> Position:
        """Continue from a checkpoint's state.

        Raises:
            UserError: it belongs to other settings or other images.
        """
        images = len(self.loader.source)
        if state["images"] != images:
            raise UserError(
                f"{self.run.path} was trained on {state['images']:,} images, but {self.settings.data} now has "
                f"{images:,}: a run can only be resumed on the same data; to start a new run from its weights, use "
                f"{shell_words('--init', self.run.path)}"
            )
        try:
            require_fit(
                state, self.method, self.optimizer, {} if self.average is None else self.average.state()
            )
            if state["batch"] >= self.loader.batches_per_epoch:
                raise ValueError(
                    f"an epoch has {self.loader.batches_per_epoch} batches, not {state['batch']}"
                )
            self.method.load_state_dict(state["method"])
            load_optimizer(self.optimizer, state)
            if self.average is not None:
                self.average.load(state["average"])
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"the checkpoint in {self.run.checkpoints} does not fit the settings of the run: another version "
                f"of cacr wrote it. Resume with that version, or start a new run with "
                + shell_words("--init", self.run.path)
            ) from error
        return Position(state["step"], state["epoch"], state["batch"])
