"""Read tensors from files; nothing in them is executed."""

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from cacr.errors import UserError
from cacr.reading.files import require_file
from cacr.reading.foreign import foreign
from cacr.reading.memory import require_memory

_OBJECT = re.compile(r"GLOBAL (\S+)")
"""Finds the refused name in PyTorch's message."""


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name."""
    from safetensors.torch import load_file

    require_file(path)
    require_memory(path.stat().st_size, str(path))
    with foreign(f"{path} is not a readable safetensors file"):
        state: dict[str, torch.Tensor] = load_file(path)
    return state


class _Unread:
    """Replaces a harmless object of other software in a checkpoint; its content is ignored."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


HARMLESS = (
    "argparse.Namespace",
    "_codecs.encode",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.dtype",
    *(f"numpy.dtypes.{kind}DType" for kind in ("Float32", "Float64", "Int32", "Int64", "Bool")),
    "pathlib.PosixPath",
    "pathlib._local.PosixPath",
    "pytorch_lightning.utilities.parsing.AttributeDict",
    "lightning.pytorch.utilities.parsing.AttributeDict",
    "lightning.fabric.utilities.data.AttributeDict",
    "lightning_fabric.utilities.data.AttributeDict",
)
"""Objects that training software stores with weights: arguments, scores, paths. They are not imported or executed."""


def read_torch(path: Path, *, pass_over: Iterable[str] = ()) -> Any:
    """Read a file of :func:`torch.save`: only tensors and plain values, on the CPU.

    Args:
        path: the file.
        pass_over: names of objects, such as those of :data:`HARMLESS`, that are replaced by an empty object.

    Raises:
        UserError: the file is damaged, or contains something that would have to be executed.
    """
    require_file(path)
    require_memory(path.stat().st_size, str(path))
    harmless: list[Any] = [(_Unread, name) for name in pass_over]
    with (
        foreign(f"{path} is not a readable weights file"),
        torch.serialization.safe_globals(harmless),
        warnings.catch_warnings(action="ignore"),  # such files are refused below
    ):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError as error:
            # PyTorch's own message suggests running the content of the file.
            found = _OBJECT.search(str(error))
            what = f" ({found[1]})" if found else ""
            raise UserError(
                f"{path} contains more than tensors and is not read, for safety{what}: save only the tensors, "
                "torch.save(model.state_dict(), FILE)"
            ) from None
    if not _plain(content):
        raise UserError(
            f"{path} has tensors that are sparse, quantised, nested or without values (meta): save plain tensors"
        )
    return content


def _plain(content: Any) -> bool:
    """Whether all tensors in lists and mappings are dense numbers in memory."""
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
    """Describe which tensors do not fit a model; empty if all fit."""
    both = [name for name in stored if name in expected]
    numbers = [name for name in both if stored[name].is_floating_point()]
    kinds = {
        "missing": [name for name in expected if name not in stored],
        "unknown": [name for name in stored if name not in expected],
        "of another shape": [name for name in both if stored[name].shape != expected[name].shape],
        "of another number type": [
            name for name in both if stored[name].is_floating_point() != expected[name].is_floating_point()
        ],
        "not finite": [name for name in numbers if not bool(torch.isfinite(stored[name].float()).all())],
    }
    return "; ".join(
        f"{len(names):,} tensors are {kind}, such as {names[0]}" for kind, names in kinds.items() if names
    )
