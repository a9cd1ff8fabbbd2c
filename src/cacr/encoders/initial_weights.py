"""Weights from elsewhere to start from: another run, or a file."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cacr.encoders.encoder import Encoder
from cacr.encoders.files import weights_file
from cacr.errors import UserError
from cacr.reading.tensors import read_safetensors, read_torch

NESTED = ("state_dict", "model", "encoder", "backbone")
"""Names under which training software keeps a state dict inside a checkpoint."""


@dataclass(frozen=True)
class LoadedWeights:
    """What of a state dict fitted an encoder; every name is one of the encoder's own or of the file's.

    Attributes:
        loaded: Tensors of the encoder that were replaced.
        missing: Tensors of the encoder that the file does not have, or has in another shape.
        unexpected: Tensors of the file that the encoder has no place for.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


def load_weights(encoder: Encoder, source: str | Path) -> LoadedWeights:
    """Start an encoder from weights that were trained elsewhere.

    A prefix of the names, such as ``module.backbone.``, is found by itself.

    Args:
        encoder: Changed in place.
        source: A run folder, a ``.safetensors`` file, or a ``.pt``/``.pth`` file that holds tensors only.

    Raises:
        UserError: when the file cannot be read, or less than half of the encoder's weights fit.
    """
    file = weights_file(Path(source))
    given = read_safetensors(file) if file.suffix == ".safetensors" else _read_state(file)
    own: dict[str, Tensor] = encoder.backbone.state_dict()
    prefix = _common_prefix(own, given)
    fitting = {
        name: given[prefix + name]
        for name, tensor in own.items()
        if prefix + name in given and given[prefix + name].shape == tensor.shape
    }
    covered = sum(own[name].numel() for name in fitting) / sum(tensor.numel() for tensor in own.values())
    if covered < 0.5:
        raise UserError(
            f"{file} holds only {covered:.0%} of the weights of {encoder.info.encoder} for "
            f"{encoder.info.image_size} pixels and width {encoder.info.width:g}: is it of another encoder?"
        )
    broken = [name for name, tensor in fitting.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        raise UserError(
            f"{file}: {len(broken)} tensors are not finite, such as {broken[0]}: its training diverged"
        )
    encoder.backbone.load_state_dict(fitting, strict=False)
    used = {prefix + name for name in fitting}
    return LoadedWeights(
        loaded=tuple(fitting),
        missing=tuple(name for name in own if name not in fitting),
        unexpected=tuple(name for name in given if name not in used),
    )


def _read_state(path: Path) -> dict[str, Tensor]:
    """The state dict in a file that :func:`torch.save` wrote; only tensors and plain values are read."""
    content = read_torch(path)
    for name in NESTED:
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            content = content[name]
    tensors = _tensors(content)
    if not tensors:
        raise UserError(f"{path} holds no weights by name")
    return tensors


def _tensors(content: Any) -> dict[str, Tensor]:
    if not isinstance(content, Mapping):
        return {}
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


def _common_prefix(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    """What the file writes before most of the encoder's names; the shortest such prefix."""
    counts = Counter(
        long.removesuffix(name) for name in own for long in given if long == name or long.endswith(f".{name}")
    )
    return max(counts, key=lambda prefix: (counts[prefix], -len(prefix)), default="")
