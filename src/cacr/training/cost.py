"""What a run costs: memory counted without computing anything, and a step's time and memory measured here."""

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from cacr.config import ResolvedSettings
from cacr.data import Source
from cacr.frameworks import Framework
from cacr.randomness import generator
from cacr.training.build import make_views_of
from cacr.training.job import Training
from cacr.training.optimizers import RATE_BATCH, USUAL
from cacr.views import Views

PROBE_SECONDS = 0.5
"""The probe grows until a step of it takes this long."""


@dataclass(frozen=True)
class StepCost:
    """Time and memory of a training step in one process.

    Attributes:
        seconds: of making the views and of the forward and backward pass.
        activations: bytes kept for the backward pass.
        weights: bytes of the weights, their gradients and the optimiser's numbers, and of what is held beside
            them: a momentum encoder, a queue.
    """

    seconds: float
    activations: int
    weights: int


def measure_cost(job: Training, source: Source) -> StepCost:
    """Time steps of a copy of what will be trained, on views of noise; every process must call this.

    The probe starts with a few images and grows towards this process's share of a batch only where that is quick;
    time and activations are then scaled to it.
    """
    fabric, images = job.fabric, max(2, job.settings.batch_size // job.fabric.world_size)
    probe = copy.deepcopy(job.method).to(fabric.device).train()
    count = min(images, 4)
    while True:
        times = []
        for _ in range(3):  # the first warms caches; the quicker of the others is least disturbed
            started = time.perf_counter()
            saved = _probe_step(fabric, probe, noise_views(job.views, source, count))
            times.append(time.perf_counter() - started)
        # All processes must go through the same probes, because the objective may talk to the others.
        seconds = float(fabric.broadcast(min(times[1:])))
        if count == images or seconds > PROBE_SECONDS:
            break
        count = min(images, count * 4)
    kept = saved * images / count
    if probe.encode_chunk is not None and probe.encode_chunk < images:
        few = noise_views(job.views, source, min(count, probe.encode_chunk))
        kept = _kept_in_chunks(fabric, probe, few, images=images)
    weights = weights_bytes((*probe.parameters(), *probe.buffers()), job.settings)
    return StepCost(seconds * images / count, round(kept), weights)


def weights_bytes(tensors: Iterable[Tensor], settings: ResolvedSettings) -> int:
    """Bytes of tensors; those that are trained have gradients and the optimiser's numbers beside them."""
    states = USUAL[settings.optimizer].states
    return sum(t.nbytes * (2 + states if t.requires_grad else 1) for t in tensors)


def noise_views(views: Views, source: Source, count: int) -> list[Tensor]:
    """Views of ``count`` images of noise, made as those of a source will be."""
    draw = generator("noise")

    def noise(*shape: int) -> Tensor:
        return torch.randint(256, shape, dtype=torch.uint8, generator=draw)

    if source.image_size is not None:
        return views(noise(count, 3, *source.image_size), draw)
    return views([noise(len(run), count, 3, run[0].size, run[0].size) for run in views.runs], draw)


def _kept_in_chunks(fabric: Fabric, probe: Framework, views: Sequence[Tensor], *, images: int) -> float:
    """Bytes kept by a batch whose images are encoded in chunks: one chunk's activations, and all views."""
    chunk, probe.encode_chunk = probe.encode_chunk, None
    assert chunk is not None
    saved, probed = _probe_step(fabric, probe, views), views[0].shape[1]
    return (saved * chunk + sum(x.nbytes for x in views) * (images - chunk)) / probed


def _probe_step(fabric: Fabric, probe: Framework, views: Sequence[Tensor]) -> int:
    """One forward and backward pass; returns the bytes that autograd kept between them."""
    with kept_for_backward(probe) as kept, fabric.autocast():
        loss = probe(views)["loss"]
    loss.backward()
    probe.zero_grad(set_to_none=True)
    if fabric.device.type == "cuda":
        torch.cuda.synchronize()
    return kept.bytes


def count_memory(settings: ResolvedSettings, method: Framework, images: int) -> tuple[int, int]:
    """Bytes kept for the backward pass of the embedding of ``images`` images, and of the loss of a global batch.

    Nothing is computed: the method is on the meta device.
    """
    sizes: dict[int, int] = {}
    for view in make_views_of(settings).augmentations:
        sizes[view.size] = sizes.get(view.size, 0) + 1
    views = [torch.empty(count, images, 3, size, size, device="meta") for size, count in sizes.items()]
    with kept_for_backward(method) as activations:
        queries = method.embed(views)
    small = [x[:, :2] for x in views]
    targets = method.targets(small)
    wide = queries.new_empty(len(queries), settings.batch_size, queries.shape[2]).requires_grad_()
    keys = None if targets is None else wide.new_empty(len(targets), *wide.shape[1:])
    with kept_for_backward(method) as loss:
        method.loss(wide, keys)
    return activations.bytes, loss.bytes


@dataclass
class Kept:
    """How many bytes were kept."""

    bytes: int = 0


@contextmanager
def kept_for_backward(method: nn.Module) -> Iterator[Kept]:
    """Count what autograd keeps while the block runs, each storage once; those of the method itself do not count."""
    own = {t.untyped_storage()._cdata for t in (*method.parameters(), *method.buffers())}
    seen: dict[int, Tensor] = {}  # held meanwhile, so that no other storage takes its number
    kept = Kept()

    def keep(tensor: Tensor) -> Tensor:
        key = tensor.untyped_storage()._cdata
        if key not in own and key not in seen:
            seen[key] = tensor
            kept.bytes += tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield kept
    seen.clear()


def rate_text(settings: ResolvedSettings) -> str:
    """The peak learning rate, and what it is for a batch of 256: it is scaled in proportion to the batch."""
    images = settings.batch_size * settings.accumulate
    return f"{settings.lr:.4g} (= {settings.lr * RATE_BATCH / images:.4g} x {images} / {RATE_BATCH})"
