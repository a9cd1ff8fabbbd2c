"""Read weight files of any software as one flat mapping from names to tensors; only tensors are read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from cacr.encoders.hugging_face import with_timm_names
from cacr.errors import UserError
from cacr.reading.tensors import HARMLESS, read_safetensors, read_torch

DEEPEST = 8
"""Largest depth of nested mappings; checkpoints have three or four."""


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All named tensors, in the order of the file; tensors inside of ``state_dict`` are named ``state_dict.NAME``.

    Vision transformers of Hugging Face get timm's names, see :mod:`cacr.encoders.hugging_face`.

    Raises:
        UserError: the file is damaged, contains more than tensors and plain values, or has no tensors.
    """
    safe = path.suffix.lower() == ".safetensors"
    content = read_safetensors(path) if safe else read_torch(path, pass_over=HARMLESS)
    found = dict(_flat(content, "", DEEPEST))
    if not found:
        raise UserError(f"{path} has no named weights")
    return with_timm_names(found)


def _flat(content: Any, prefix: str, deepest: int) -> Iterator[tuple[str, Tensor]]:
    if not isinstance(content, Mapping) or not deepest:
        return
    for name, value in content.items():
        if not isinstance(name, str):  # the state of an optimiser has parameter numbers as keys
            continue
        if isinstance(value, Tensor):
            yield prefix + name, value
        else:
            yield from _flat(value, f"{prefix}{name}.", deepest - 1)
