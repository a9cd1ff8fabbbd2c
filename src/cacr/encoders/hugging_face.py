"""Vision transformers of Hugging Face's ``transformers``: rename their tensors to timm's names, read their config."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from cacr.encoders.encoder import EncoderInfo
from cacr.errors import UserError
from cacr.feature_view import Interpolation
from cacr.reading.documents import read_json_if_any

PREFIX = "transformers."
"""Prefix of renamed tensors, which distinguishes them from original names."""

PREPARATION = "preprocessor_config.json"

_PATCHES = "embeddings.patch_embeddings.projection.weight"
_FIRST_BLOCK = f"{PREFIX}blocks.0.attn.qkv.weight"
_OUTSIDE = {
    "embeddings.cls_token": "cls_token",
    "embeddings.position_embeddings": "pos_embed",
    "embeddings.patch_embeddings.projection.weight": "patch_embed.proj.weight",
    "embeddings.patch_embeddings.projection.bias": "patch_embed.proj.bias",
    "layernorm.weight": "norm.weight",
    "layernorm.bias": "norm.bias",
}
_BLOCK = re.compile(r"(?:encoder\.)?layers?\.(\d+)\.(.+)\.(\w+)")
_INSIDE = {
    **dict.fromkeys(("layernorm_before", "norm1"), "norm1"),
    **dict.fromkeys(("layernorm_after", "norm2"), "norm2"),
    **dict.fromkeys(("attention.output.dense", "attention.o_proj"), "attn.proj"),
    **dict.fromkeys(("intermediate.dense", "mlp.fc1"), "mlp.fc1"),
    **dict.fromkeys(("output.dense", "mlp.fc2"), "mlp.fc2"),
    "layer_scale1": "ls1",
    "layer_scale2": "ls2",
}
"""Parts of a block: names in files on the hub, and those of newer versions."""
_QKV = {
    **dict.fromkeys(("attention.attention.query", "attention.q_proj"), 0),
    **dict.fromkeys(("attention.attention.key", "attention.k_proj"), 1),
    **dict.fromkeys(("attention.attention.value", "attention.v_proj"), 2),
}
"""Their positions in timm's combined matrix."""


def with_timm_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of a file; those of a plain vision transformer of Hugging Face get timm's names with :data:`PREFIX`.

    timm has queries, keys and values in one matrix (3 dim, dim), one below the other. Tensors that are not part of the
    transformer keep their names, and so do all tensors of other files.
    """
    outer = next((name.removesuffix(_PATCHES) for name in tensors if name.endswith(_PATCHES)), None)
    if outer is None:
        return dict(tensors)
    renamed: dict[str, Tensor] = {}
    parts: dict[str, dict[int, Tensor]] = {}
    for name, tensor in tensors.items():
        bare = name.removeprefix(outer)
        block = _BLOCK.fullmatch(bare)
        if bare in _OUTSIDE:
            renamed[PREFIX + _OUTSIDE[bare]] = tensor
        elif block is not None and block[2] in _QKV:
            whole = f"{PREFIX}blocks.{block[1]}.attn.qkv.{block[3]}"
            parts.setdefault(whole, {})[_QKV[block[2]]] = tensor
        elif block is not None and block[2] in _INSIDE:
            kind = block[3].replace("lambda1", "gamma")
            renamed[f"{PREFIX}blocks.{block[1]}.{_INSIDE[block[2]]}.{kind}"] = tensor
        else:
            renamed[name] = tensor
    renamed |= {name: torch.cat([own[n] for n in range(3)]) for name, own in parts.items() if len(own) == 3}
    return renamed if _FIRST_BLOCK in renamed else dict(tensors)


@dataclass(frozen=True)
class _Preparation:
    """The parts of a ``preprocessor_config.json`` that are used."""

    image_mean: tuple[float, float, float] | None = None
    image_std: tuple[float, float, float] | None = None
    resample: int | None = None


_PREPARATION = TypeAdapter(_Preparation)
_FILTERS: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic"}


def prepared_by(folder: Path, info: EncoderInfo) -> EncoderInfo:
    """A description with the mean, standard deviation and resize filter that a folder gives, if any.

    Raises:
        UserError: the values are not possible.
    """
    file = folder / PREPARATION
    found = read_json_if_any(file, _PREPARATION)
    if found is None:
        return info
    mean, std = found.image_mean or info.mean, found.image_std or info.std
    if not all(0 < value < 1e4 for value in std) or not all(abs(value) < 1e4 for value in mean):
        raise UserError(f"{file}: images cannot have the mean {mean} and the standard deviation {std}")
    filtering = _FILTERS.get(found.resample or 0, info.interpolation)
    return replace(info, mean=mean, std=std, interpolation=filtering)


def heads_of(config: Mapping[str, Any], dim: int) -> dict[str, int]:
    """The number of attention heads, by timm's name, which no tensor shows; empty if it is the default."""
    heads = config.get("num_attention_heads")
    if not isinstance(heads, int) or not 0 < heads <= 1024 or heads == dim // 64:
        return {}
    return {"num_heads": heads}
