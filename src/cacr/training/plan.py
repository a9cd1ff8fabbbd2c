"""What a run will cost, measured on this machine before its first step."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from torch import Tensor

from cacr.frameworks import Framework

PROBE_SECONDS = 0.5
"""The probe grows until a step of it takes this long."""


@dataclass(frozen=True)
class Cost:
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


def measure_cost(
    fabric: Fabric,
    method: Framework,
    make_views: Callable[[int], Sequence[Tensor]],
    *,
    images: int,
    states: int,
) -> Cost:
    """Time steps of a copy of ``method``.

    The probe starts with a few images and grows towards the real share of a batch only where that is quick;
    time and activations are then scaled to it.

    Args:
        fabric: gives device and precision.
        method: what will be trained; it is not changed.
        make_views: number of images -> their views, as the framework takes them.
        images: images of a batch in this process.
        states: numbers that the optimiser keeps for each weight.
    """
    probe = copy.deepcopy(method).to(fabric.device).train()
    held = [
        t.nbytes * (2 + states if t.requires_grad else 1) for t in (*probe.parameters(), *probe.buffers())
    ]
    weights = sum(held)
    count = min(images, 4)
    while True:
        times = []
        for _ in range(3):  # the first warms caches; the quicker of the others is least disturbed
            started = time.perf_counter()
            saved = _probe_step(fabric, probe, make_views(count))
            times.append(time.perf_counter() - started)
        # All processes must go through the same probes, because the objective may talk to the others.
        seconds = float(fabric.broadcast(min(times[1:])))
        if count == images or seconds > PROBE_SECONDS:
            break
        count = min(images, count * 4)
    kept = saved * images / count
    if probe.encode_chunk is not None and probe.encode_chunk < images:
        kept = _kept_in_chunks(fabric, probe, make_views(min(count, probe.encode_chunk)), images=images)
    return Cost(seconds * images / count, round(kept), weights)


def _kept_in_chunks(fabric: Fabric, probe: Framework, views: Sequence[Tensor], *, images: int) -> float:
    """Bytes kept by a batch whose images are encoded in chunks: one chunk's activations, and all views."""
    chunk, probe.encode_chunk = probe.encode_chunk, None
    assert chunk is not None
    saved, probed = _probe_step(fabric, probe, views), views[0].shape[1]
    return (saved * chunk + sum(x.nbytes for x in views) * (images - chunk)) / probed


def _probe_step(fabric: Fabric, probe: Framework, views: Sequence[Tensor]) -> int:
    """One forward and backward pass; returns the bytes that autograd kept between them."""
    kept: dict[int, int] = {}
    parameters = {t.untyped_storage().data_ptr() for t in (*probe.parameters(), *probe.buffers())}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), fabric.autocast():
        loss = probe(views)["loss"]
    loss.backward()
    probe.zero_grad(set_to_none=True)
    if fabric.device.type == "cuda":
        torch.cuda.synchronize()
    return sum(kept.values())
