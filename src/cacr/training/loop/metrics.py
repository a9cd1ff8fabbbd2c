"""Write metrics to ``metrics.jsonl``, and to TensorBoard and Weights & Biases if asked."""

import json
from collections.abc import Callable
from pathlib import Path

from cacr.config import PretrainSettings
from cacr.errors import MissingExtraError, UserError

Sink = Callable[[int, dict[str, float]], None]


class MetricsLog:
    """Appends one JSON object per line, flushes at once, and passes it to the other loggers."""

    def __init__(self, path: Path, settings: PretrainSettings) -> None:
        self._path = path
        self._sinks: list[Sink] = []
        if settings.tensorboard:
            self._sinks.append(_tensorboard(path.parent / "tensorboard"))
        if settings.wandb:
            self._sinks.append(_wandb(path.parent, settings))

    def write(self, step: int, epoch: float, values: dict[str, float]) -> None:
        """Log ``values`` after ``step`` optimiser steps."""
        line = json.dumps({"step": step, "epoch": epoch, **values})
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error.strerror}") from None
        for sink in self._sinks:
            sink(step, values)


def _tensorboard(folder: Path) -> Sink:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtraError("logging for TensorBoard", "tensorboard") from None
    writer = SummaryWriter(str(folder))

    def write(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return write


def _wandb(folder: Path, settings: PretrainSettings) -> Sink:
    try:
        import wandb
    except ImportError:
        raise MissingExtraError("logging to Weights & Biases", "wandb") from None
    run = wandb.init(project="cacr", name=folder.name, dir=folder, config=settings.model_dump(mode="json"))
    return lambda step, values: run.log(values, step=step)
