"""The training of a detector; read it from top to bottom."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from cacr.config import FORMAT
from cacr.data import Problem
from cacr.data.annotated import AnnotatedSource
from cacr.distributed import rank, world_size
from cacr.errors import StoppedError, UserError
from cacr.evaluation.detection.batches import Picture, training_batches
from cacr.evaluation.detection.recipes import DetectionRecipe
from cacr.features.machine import Machine
from cacr.features.processes import gather_objects
from cacr.randomness import mixed_seed
from cacr.runs.checkpoint import load_optimizer, require_fit
from cacr.terminal import CleanConsole
from cacr.training.building.checkpoints import list_checkpoints, load_latest, save_checkpoint
from cacr.training.loop.interrupt import Interrupt

MOMENTUM = 0.9
DECAY = {"sgd": 1e-4, "adamw": 0.1}
"""Weight decay by optimiser: that of detectron2, and that of ViTDet."""

NORMS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm)


@dataclass
class DetectorTraining:
    """A detector, its training data, and where its state is stored.

    Attributes:
        detector: Trained in place.
        recipe: Recipe with its number of steps.
        source: The training images.
        masks: Whether the detector learns masks.
        seed: Seed of order, flips, sizes and samples.
        machine: Device, and number of decoding processes.
        folder: Folder of the checkpoints.
        save_seconds: Time between two checkpoints.
        after_step: Called with the number of steps so far and the loss.
        problems: Images that were found to be unreadable.
    """

    detector: nn.Module
    recipe: DetectionRecipe
    source: AnnotatedSource
    masks: bool
    seed: int
    machine: Machine
    folder: Path
    save_seconds: float
    after_step: Callable[[int, float], None] = lambda step, loss: None
    problems: set[Problem] = field(default_factory=set)

    @property
    def steps(self) -> int:
        """Number of steps of the whole training."""
        assert self.recipe.steps is not None
        return self.recipe.steps


def train_detector(job: DetectorTraining) -> None:
    """Train from the last checkpoint, if there is one, to the end.

    A step depends only on its number, the weights and the state of the optimiser. So an interrupted training ends
    with the same weights as one without interruption.

    Raises:
        StoppedError: after Ctrl-C, with a checkpoint written.
        UserError: the loss is not finite.
    """
    job.detector.to(job.machine.device)
    optimizer = make_optimizer(job.detector, job.recipe)
    first = _resume(job, optimizer)
    schedule, saved = job.recipe.schedule(), time.monotonic()
    with Interrupt(_answer) as interrupt:
        for step, batch in enumerate(_batches(job, range(first, job.steps)), first):
            for group in optimizer.param_groups:
                group["lr"] = job.recipe.lr * schedule(step)
            loss = _take_step(job, optimizer, step, batch)
            job.after_step(step + 1, loss)
            due = time.monotonic() - saved >= job.save_seconds
            # Clocks differ, but all processes must save and stop together.
            stop, due = (
                any(wishes) for wishes in zip(*gather_objects((interrupt.requested, due)), strict=True)
            )
            if stop or due:
                _save(job, optimizer, step + 1)
                saved = time.monotonic()
            if stop and step + 1 < job.steps:
                raise StoppedError(
                    f"interrupted after step {step + 1:,} of {job.steps:,}; run the same command to continue"
                )
    _save(job, optimizer, job.steps)


def _answer() -> None:
    CleanConsole(stderr=True).print("finishing this step, saving ... (Ctrl-C again ends at once)")


def make_optimizer(detector: nn.Module, recipe: DetectionRecipe) -> torch.optim.Optimizer:
    """SGD with momentum 0.9, or AdamW, for all trained weights; norms have no weight decay, as in detectron2."""
    norms = {id(p) for m in detector.modules() if isinstance(m, NORMS) for p in m.parameters()}
    trained = [p for p in detector.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if id(p) not in norms], "weight_decay": DECAY[recipe.optimizer]},
        {"params": [p for p in trained if id(p) in norms], "weight_decay": 0.0},
    ]
    filled = [group for group in groups if group["params"]]
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(filled, lr=recipe.lr)
    return torch.optim.SGD(filled, lr=recipe.lr, momentum=MOMENTUM)


def _batches(job: DetectorTraining, steps: range) -> Iterator[list[Picture]]:
    """The readable images of each step that belong to this process."""
    found = training_batches(
        job.source,
        batch_size=job.recipe.batch_size,
        seed=job.seed,
        steps=steps,
        share=slice(rank(), None, world_size()),
        masks=job.masks,
        workers=job.machine.workers,
    )
    for batch in found:
        job.problems.update(item for item in batch if isinstance(item, Problem))
        yield [item for item in batch if isinstance(item, Picture)]


def _take_step(
    job: DetectorTraining, optimizer: torch.optim.Optimizer, step: int, batch: list[Picture]
) -> float:
    """Do one step with the mean gradient of all processes; return the loss of this process."""
    job.detector.train()
    # Sizes and samples of boxes use torch's own generator. It is seeded by the step, so no state has to be stored.
    torch.manual_seed(mixed_seed("detector", job.seed, step, rank()))
    optimizer.zero_grad(set_to_none=True)
    loss = losses_of(job, batch)
    if loss is not None:
        torch.autograd.backward(loss)
    value = float("nan") if loss is None else float(loss.detach())
    if loss is not None and not torch.isfinite(loss):
        raise UserError(
            f"the loss of the detector is not finite at step {step + 1:,}: try a lower learning rate, such as "
            f"--set lr={job.recipe.lr / 4:g}"
        )
    average_gradients(optimizer)
    optimizer.step()
    return value


def losses_of(job: DetectorTraining, batch: list[Picture]) -> Tensor | None:
    """The sum of the losses of a batch; None if none of its images is readable."""
    if not batch:
        return None
    device = job.machine.device
    images = [picture.image.to(device).float() / 255 for picture in batch]
    targets = [{name: value.to(device) for name, value in picture.target.items()} for picture in batch]
    losses: dict[str, Tensor] = job.detector(images, targets)
    return torch.stack(list(losses.values())).sum()


def average_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Replace each gradient by its mean over all processes."""
    if world_size() == 1:
        return
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    for weight in weights:
        if weight.grad is None:  # this process had no image, or the detector does not use the weight
            weight.grad = torch.zeros_like(weight)
    flat = torch.cat([weight.grad.flatten() for weight in weights])
    dist.all_reduce(flat)
    flat /= world_size()
    for weight, mean in zip(weights, torch.split(flat, [w.numel() for w in weights]), strict=True):
        weight.grad.copy_(mean.view_as(weight))


@torch.no_grad()
def measure_statistics(job: DetectorTraining, images: int) -> None:
    """Set the batch-norm statistics to those of some training images (MoCo's ``PRECISE_BN``).

    Running statistics lag behind the weights, which matters for small batches.
    """
    layers = [m for m in job.detector.train().modules() if isinstance(m, _BatchNorm) and m.training]
    count = min(-(-images // job.recipe.batch_size), job.steps)
    if not layers or not count:
        return
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain mean over batches
    for step, batch in enumerate(_batches(job, range(job.steps, job.steps + count)), job.steps):
        torch.manual_seed(mixed_seed("detector", job.seed, step, rank()))
        losses_of(job, batch)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum


def _resume(job: DetectorTraining, optimizer: torch.optim.Optimizer) -> int:
    """Restore detector and optimiser from the last checkpoint; return the number of steps so far."""
    if not list_checkpoints(job.folder):
        return 0
    notes: list[str] = []
    state = load_latest(job.folder, notes.append)
    assert state is not None  # a checkpoint exists, and damaged ones are refused
    try:
        require_fit(state, job.detector, optimizer)
    except ValueError as error:
        raise UserError(
            f"the state in {job.folder} belongs to another detector ({error}): remove the folder"
        ) from None
    job.detector.load_state_dict(state["method"])
    load_optimizer(optimizer, state)
    return min(int(state["step"]), job.steps)


def _save(job: DetectorTraining, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write a checkpoint from the first process; the others wait."""
    if rank() == 0:
        try:
            job.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create {job.folder}: {error.strerror}") from None
        weights = {name: value.cpu() for name, value in job.detector.state_dict().items()}
        state: dict[str, Any] = {
            "format": FORMAT,
            "images": len(job.source),
            "step": step,
            "epoch": 0,
            "batch": 0,
        }
        save_checkpoint(
            job.folder,
            step,
            state | {"method": weights, "optimizer": optimizer.state_dict(), "diagnostics": {}},
        )
    if world_size() > 1:
        dist.barrier()
