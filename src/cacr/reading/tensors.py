"""Tensors in files; nothing in them is executed."""

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from cacr.errors import UserError
from cacr.reading.files import require_file
from cacr.reading.foreign import foreign, reason
from cacr.reading.memory import require_memory


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name."""
    from safetensors.torch import load_file

    require_file(path)
    require_memory(path.stat().st_size, str(path))
    with foreign(f"{path} is not a readable safetensors file"):
        state: dict[str, torch.Tensor] = load_file(path)
    return state


def read_torch(path: Path) -> Any:
    """What :func:`torch.save` wrote: tensors and plain values only, on the CPU.

    Raises:
        UserError: the file is damaged, or holds anything that would have to be executed.
    """
    require_file(path)
    require_memory(path.stat().st_size, str(path))
    with foreign(f"{path} is not a readable weights file"):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError as error:
            raise UserError(
                f"{path} holds more than tensors and is not read for safety: {reason(error)}"
            ) from None
    if not _plain(content):
        raise UserError(
            f"{path} holds tensors that are sparse, quantised, nested or without values (meta): save plain ones"
        )
    return content


def _plain(content: Any) -> bool:
    """Whether all tensors in lists and mappings are plain numbers in memory, which is all that is computed with."""
    pending = [content]
    while pending:
        thing = pending.pop()
        if isinstance(thing, torch.Tensor):
            odd = thing.layout != torch.strided or thing.is_quantized or thing.is_nested or thing.is_meta
            if odd:
                return False
        elif isinstance(thing, Mapping):
            pending += thing.values()
        elif isinstance(thing, list | tuple):
            pending += thing
    return True


def misfit(expected: Mapping[str, torch.Tensor], stored: Mapping[str, torch.Tensor]) -> str:
    """In words what tensors do not fit a model; empty if all do."""
    both = [name for name in stored if name in expected]
    numbers = [name for name in both if stored[name].is_floating_point()]
    kinds = {
        "lacking": [name for name in expected if name not in stored],
        "not its own": [name for name in stored if name not in expected],
        "of another shape": [name for name in both if stored[name].shape != expected[name].shape],
        "of another kind of number": [
            name for name in both if stored[name].is_floating_point() != expected[name].is_floating_point()
        ],
        "not finite": [name for name in numbers if not bool(torch.isfinite(stored[name].float()).all())],
    }
    return "; ".join(
        f"{len(names):,} tensors are {kind}, such as {names[0]}" for kind, names in kinds.items() if names
    )
