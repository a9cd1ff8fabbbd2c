"""Estimate the memory of the passes of a run by simulating each with tensors without values."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from cacr.config import RESUMABLE, ResolvedSettings
from cacr.distributed import alone
from cacr.feature_view import images_at_once
from cacr.frameworks import Framework
from cacr.training.building.build import feature_view_of, make_views_of
from cacr.training.building.held_out import MEASURED_AT_ONCE
from cacr.training.building.networks import build_method
from cacr.training.cost.live import live_peak, make_fake
from cacr.training.optimization.optimizers import DEFAULTS
from cacr.training.settings.resolve import MEASURED_VIEWS, STRONG_VIEWS

_NO_SHAPE = RESUMABLE | {
    *("seed", "images", "imbalance", "imbalance_seed", "held_out", "measured_images", "max_unreadable"),
    *("time", "schedule", "milestones", "gamma", "warmup_epochs", "lr", "base_lr", "weight_decay"),
    *(
        "recipe",
        "method",
        "init",
        "weights",
        "encoder_rate",
        "bias_base_lr",
        "final_lr",
        "momentum",
        "clip_grad",
    ),
}
"""Settings that do not change the shape of any tensor."""


class Passes(NamedTuple):
    """Bytes.

    Attributes:
        weights: the weights, and what is stored with them: their average, a momentum encoder, a queue.
        states: the state of the optimiser.
        step: the most that exists at once in a step, in addition to these.
        measuring: the most that exists at once in a measurement.
        paging: the most that exists at once when images are encoded for the report.
    """

    weights: int
    states: int
    step: int
    measuring: int
    paging: int


@dataclass(frozen=True)
class _Shapes:
    """Settings that compare equal if all tensors have the same shapes."""

    key: str
    settings: ResolvedSettings = field(compare=False)


def count_passes(settings: ResolvedSettings, images: int) -> Passes:
    """The passes of a process with this number of images per batch; results are cached by shape."""
    return _count(_Shapes(settings.model_dump_json(exclude=set(_NO_SHAPE)), settings), images)


@lru_cache(maxsize=64)
def _count(shapes: _Shapes, images: int) -> Passes:
    settings = shapes.settings
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        method, _ = build_method(settings)
        if settings.channels_last:
            method = method.to(memory_format=torch.channels_last)
    weights = sum(t.nbytes for t in (*method.parameters(), *method.buffers()))
    trained = sum(p.nbytes for p in method.parameters() if p.requires_grad)
    states = DEFAULTS[settings.optimizer].states * trained
    weights += trained if settings.average else 0
    with alone():
        return Passes(weights, states, *_peaks(settings, method, images))


def view_sizes(settings: ResolvedSettings) -> list[tuple[int, int]]:
    """Size in pixels and number of the views in each group that a framework receives, global crops first."""
    return [(run[0].size, len(run)) for run in make_views_of(settings).runs]


LOOKS = MEASURED_VIEWS, 1 + STRONG_VIEWS
"""Views per image in a measurement: random ones, which are encoded together, and the others."""


def _peaks(settings: ResolvedSettings, method: Framework, images: int) -> tuple[int, int, int]:
    """Bytes of a step with its gradients, of a measurement and of the report."""
    mode, bf16 = make_fake(method), settings.precision == "bf16"

    size, largest = settings.image_size, feature_view_of(settings).size

    def look(count: int, side: int, *, bf16: bool) -> int:
        def forward() -> None:
            with torch.no_grad():
                method.encoder.eval()(noise(1, count, side, settings.channels)[0])

        return live_peak(method, mode, forward, bf16=bf16)

    stepping = _step_peak(settings, method, mode, images)
    together, others = LOOKS
    seen = MEASURED_AT_ONCE * together
    measuring = look(seen, size, bf16=bf16)
    # without gradients and copies in bf16 every byte belongs to one image
    same = not bf16 and largest == size
    page = images_at_once(largest)
    paging = measuring * page // seen if same else look(page, largest, bf16=False)
    measuring += MEASURED_AT_ONCE * others * 12 * size**2
    if largest > size:
        measuring = max(measuring, look(MEASURED_AT_ONCE, largest, bf16=bf16))
        measuring += MEASURED_AT_ONCE * 12 * largest**2
    return stepping, measuring, paging


def _step_peak(settings: ResolvedSettings, method: Framework, mode: FakeTensorMode, images: int) -> int:
    """Bytes of a step.

    For a batch in many chunks, two chunks are simulated, and then the loss of all embeddings. The larger one counts,
    in addition to the views of all images.
    """
    chunk = images if settings.encode_chunk is None else -(-images // -(-images // settings.encode_chunk))
    counted, bf16 = min(images, 2 * chunk), settings.precision == "bf16"
    sizes = view_sizes(settings)
    method.train()

    def step() -> None:
        views = [noise(count, counted, size, settings.channels) for size, count in sizes]
        views += method.blank_captions(counted)
        torch.autograd.backward(method(views)["loss"])

    def lose() -> None:
        rows = method.rows_per_view * settings.views + sum(map(len, method.blank_captions(1)))
        queries = torch.empty(rows, images, settings.dim, requires_grad=True)
        _, keyed = sizes[0]
        held = torch.empty(keyed, images, settings.dim)
        global_views = keyed if len(sizes) > 1 else None
        parts = method.loss(queries, held if method.holds_targets else None, global_views)
        torch.autograd.backward(parts["loss"])

    stepping = live_peak(method, mode, step, bf16=bf16)
    if counted == images:
        return stepping
    pixels = 4 * sum(settings.channels * size**2 * count for size, count in sizes)
    embeddings = 4 * settings.views * settings.dim  # of an image, once as such and once as their gradient
    encoding = stepping + (images - counted) * (pixels + 2 * embeddings)
    return max(encoding, images * pixels + live_peak(method, mode, lose, bf16=bf16))


def noise(views: int, images: int, size: int, channels: int = 3) -> Tensor:
    """(views, images, channels, size, size) of views as they are made, each in channels-last order."""
    return torch.empty(views, images, size, size, channels).permute(0, 1, 4, 2, 3)
