"""Tensors in files; nothing in them is executed."""

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
"""Where PyTorch names what it refuses."""


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name."""
    from safetensors.torch import load_file

    require_file(path)
    require_memory(path.stat().st_size, str(path))
    with foreign(f"{path} is not a readable safetensors file"):
        state: dict[str, torch.Tensor] = load_file(path)
    return state


class _Unread:
    """Stands for a harmless object of other software in a checkpoint: made in its place, and never looked at."""

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
"""What training software keeps beside the weights: arguments, scores, paths. Nothing of it is imported or run."""


def read_torch(path: Path, *, pass_over: Iterable[str] = ()) -> Any:
    """What :func:`torch.save` wrote: tensors and plain values only, on the CPU.

    Args:
        path: the file.
        pass_over: objects, such as those of :data:`HARMLESS`, in whose place stands one without content.

    Raises:
        UserError: the file is damaged, or holds anything that would have to be executed.
    """
    require_file(path)
    require_memory(path.stat().st_size, str(path))
    harmless: list[Any] = [(_Unread, name) for name in pass_over]
    with (
        foreign(f"{path} is not a readable weights file"),
        torch.serialization.safe_globals(harmless),
        warnings.catch_warnings(action="ignore"),  # of what is refused below
    ):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError as error:
            # PyTorch's own message proposes to run what is in the file.
            found = _OBJECT.search(str(error))
            what = f" ({found[1]})" if found else ""
            raise UserError(
                f"{path} holds more than tensors and is not read for safety{what}: save the tensors alone, "
                "torch.save(model.state_dict(), FILE)"
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
