"""Check whether a run fits into the free memory, and suggest a setting that would fit."""

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import torch

from cacr.config import ResolvedSettings
from cacr.encoders import is_transformer
from cacr.errors import UserError
from cacr.reading.memory import free_memory, gigabytes
from cacr.training.cost.need import Need
from cacr.training.cost.place import Place
from cacr.training.settings.described import Described
from cacr.training.settings.rules import DEFAULT_SIZES
from cacr.views import PRESETS

LEAST_CHUNK, LEAST_BATCH = 8, 16
"""Smallest chunk or batch that is suggested: batch statistics of fewer images are unreliable."""

_FLAGS = ("batch_size", "views", "width")


def require_room(settings: ResolvedSettings, data: Described, place: Place) -> Need:
    """Return the memory that a run needs.

    Raises:
        UserError: more than is free; names the largest parts, and a setting that would fit.
    """
    need = place.need(settings, data)
    if (problem := lacking(need, place.device)) is None:
        return need
    raise UserError(f"{problem}; {advice(settings, data, place)}")


def lacking(need: Need, device: torch.device) -> str | None:
    """Say how much memory is needed and how much is free; None if there is enough."""
    on_device = need.device_bytes() if device.type == "cuda" else 0
    free = free_memory()
    if need.more - need.processes * on_device > free:
        total, each = "", ""
        if need.processes > 1:
            total = " in total"
            each = f"{gigabytes(need.total)} in each of {need.processes} processes: "
        return (
            f"this run needs about {gigabytes(need.processes * need.total)} of memory{total} "
            f"({each}{need.largest()}), of which {gigabytes(need.processes * need.resident)} are in use already, "
            f"but only {gigabytes(free)} are free"
        )
    if on_device and torch.cuda.is_available() and on_device > (room := torch.cuda.mem_get_info(device)[0]):
        return (
            f"this run needs about {gigabytes(on_device)} of GPU memory ({need.largest()}), but "
            f"only {gigabytes(room)} are free"
        )
    return None


def advice(settings: ResolvedSettings, data: Described, place: Place) -> str:
    """The smallest change of a setting that makes the run fit, found by the same estimate."""

    def fits(change: dict[str, Any]) -> bool:
        return lacking(place.need(settings.model_copy(update=change), data), place.device) is None

    for changes in _smaller(settings, place.world_size):
        if changes and fits(changes[-1]):
            # from the smallest change to the largest: the first that fits
            change = changes[bisect_left(changes, True, hi=len(changes) - 1, key=fits)]
            return f"it would fit with {' '.join(map(_option, change.items()))}"
    return "no single setting makes it fit: use a smaller --encoder, or a machine with more memory"


def _smaller(settings: ResolvedSettings, processes: int) -> Iterator[list[dict[str, Any]]]:
    """Changes that save memory, one kind at a time; within a kind from the smallest to the largest change."""
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
    """Powers of two below ``value``, down to ``least``."""
    top = math.ceil(math.log2(max(2, value))) - 1
    return [2**power for power in range(top, -1, -1) if 2**power >= least]


def _option(change: tuple[str, Any]) -> str:
    name, value = change
    if name in _FLAGS:
        return f"--{name.replace('_', '-')} {value:g}"
    return f"--set {name}={value}"
