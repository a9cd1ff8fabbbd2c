"""Whether a run fits into the memory that is free, and which setting would."""

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import torch

from cacr.config import ResolvedSettings
from cacr.encoders import is_transformer
from cacr.errors import UserError
from cacr.reading.memory import free_memory, gigabytes
from cacr.training.need import Need
from cacr.training.place import Place
from cacr.training.resolve import Described
from cacr.training.rules import DEFAULT_SIZES
from cacr.views import PRESETS

LEAST_CHUNK, LEAST_BATCH = 8, 16
"""Images below which a chunk or a batch is not proposed: batch statistics of fewer say little."""

_FLAGS = ("batch_size", "views", "width")


def require_room(settings: ResolvedSettings, data: Described, place: Place) -> Need:
    """What a run needs.

    Raises:
        UserError: it is more than is free; names the largest parts, and a setting with which it would fit.
    """
    need = place.need(settings, data)
    if (problem := lacking(need, place.device)) is None:
        return need
    raise UserError(f"{problem}; {advice(settings, data, place)}")


def lacking(need: Need, device: torch.device) -> str | None:
    """How much is needed and how much there is, in words; None where it is enough."""
    on_device = need.device_bytes() if device.type == "cuda" else 0
    free = free_memory()
    if need.more - need.processes * on_device > free:
        each = f" in each of {need.processes} processes" if need.processes > 1 else ""
        return (
            f"this run needs about {gigabytes(need.total)} of memory{each} ({need.largest()}), of which "
            f"{gigabytes(need.processes * need.resident)} are taken already, and {gigabytes(free)} are free"
        )
    if on_device and torch.cuda.is_available() and on_device > (room := torch.cuda.mem_get_info(device)[0]):
        return (
            f"this run needs about {gigabytes(on_device)} of the GPU's memory ({need.largest()}), and "
            f"{gigabytes(room)} are free"
        )
    return None


def advice(settings: ResolvedSettings, data: Described, place: Place) -> str:
    """The mildest of a few settings with which the run fits, found by the same count."""

    def fits(change: dict[str, Any]) -> bool:
        return lacking(place.need(settings.model_copy(update=change), data), place.device) is None

    for changes in _smaller(settings, place.world_size):
        if changes and fits(changes[-1]):
            # from the mildest to the strongest: the first that fits
            change = changes[bisect_left(changes, True, hi=len(changes) - 1, key=fits)]
            return f"it would fit with {' '.join(map(_option, change.items()))}"
    return "no single setting makes it fit: give a smaller --encoder, or take a machine with more memory"


def _smaller(settings: ResolvedSettings, processes: int) -> Iterator[list[dict[str, Any]]]:
    """Changes that save memory, of one kind at a time; those of a kind from the mildest to the strongest."""
    share = settings.encode_chunk or -(-settings.batch_size // processes)
    yield [{"encode_chunk": n} for n in _halves(share, LEAST_CHUNK)]
    yield [{"batch_size": n} for n in _halves(settings.batch_size, LEAST_BATCH * processes)]
    if PRESETS[settings.preset].local is None:
        yield [{"views": n} for n in range(settings.views - 1, 1, -1)]
    sizes = [size for size in reversed(DEFAULT_SIZES) if size < settings.image_size]
    yield [{"image_size": size} for size in sizes]
    chunk = {"encode_chunk": min(share, LEAST_CHUNK)}
    yield [chunk | {"image_size": size} for size in sizes]
    if not is_transformer(settings.encoder) and settings.width > 0.25:
        yield [chunk | {"width": 0.5}, chunk | {"width": 0.25}]


def _halves(value: int, least: int) -> list[int]:
    """Powers of two below ``value``, descending to ``least``."""
    top = math.ceil(math.log2(max(2, value))) - 1
    return [2**power for power in range(top, -1, -1) if 2**power >= least]


def _option(change: tuple[str, Any]) -> str:
    name, value = change
    if name in _FLAGS:
        return f"--{name.replace('_', '-')} {value:g}"
    return f"--set {name}={value}"
