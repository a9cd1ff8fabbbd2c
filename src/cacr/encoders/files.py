"""Encoders on disk: ``encoder.safetensors`` and ``encoder.json``."""

import json
from dataclasses import asdict
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from safetensors.torch import save

from cacr.encoders.build import build_like
from cacr.encoders.encoder import Encoder, EncoderInfo
from cacr.encoders.head_file import HEAD1, load_head1
from cacr.encoders.reader_file import READER, load_reader
from cacr.encoders.text.files import has_text_side, load_text_side
from cacr.errors import UserError
from cacr.files import check_format, write_atomically
from cacr.reading.documents import read_json
from cacr.reading.files import kind_of, require_file
from cacr.reading.tensors import misfit, read_safetensors

WEIGHTS = "encoder.safetensors"
_INFO = TypeAdapter(EncoderInfo)
_FORMAT = TypeAdapter(dict[str, Any])

LARGEST_SIDE, LARGEST_WIDTH, LARGEST_NUMBER = 4096, 4.0, 1e4
"""Largest image sizes, width and means in an ``encoder.json``: far above those of real encoders, except for the width,
which has the bound of the setting, because the encoder is built before its weights are compared."""

MOST_CHANNELS = 256
"""Largest number of channels of an encoder's images."""

OPTIONS = frozenset({"num_heads"})
"""Arguments of timm's models that a description may have."""


def save_encoder(folder: Path, encoder: Encoder, info: EncoderInfo) -> None:
    """Write ``encoder.safetensors`` and ``encoder.json`` into a run folder, each completely or not at all.

    The weights have the names of the backbone, so that timm can load the file of a timm encoder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.cpu().contiguous() for name, tensor in encoder.backbone.state_dict().items()}
    weights = folder / WEIGHTS
    write_atomically(weights, save(state, metadata={"format": "pt"}))
    description = json.dumps(asdict(info), indent=2) + "\n"
    write_atomically(weights.with_suffix(".json"), description.encode())


def load_stored(path: Path, *, with_reader: bool = True) -> Encoder:
    """Load an encoder of cacr in evaluation mode, with its reader if one is stored for these weights.

    Args:
        path: A run folder, or a ``.safetensors`` file with its ``.json`` next to it.
        with_reader: Load the reader; otherwise a damaged one does not matter.
    """
    weights = weights_file(path)
    info = read_info(weights.with_suffix(".json"))
    encoder = build_like(info)
    stored = read_safetensors(weights)
    if wrong := misfit(encoder.backbone.state_dict(), stored):
        raise UserError(f"{weights} does not fit the encoder in its .json ({info.encoder}): {wrong}")
    encoder.backbone.load_state_dict(stored)
    if encoder.feature_dim != info.feature_dim:
        raise UserError(
            f"{weights.with_suffix('.json')} is damaged: feature_dim is {info.feature_dim}, "
            f"but {info.encoder} gives {encoder.feature_dim}"
        )
    encoder.info = info
    encoder.reader = load_reader(reader_file(weights), encoder) if with_reader else None
    if weights.name == WEIGHTS and has_text_side(weights.parent):
        encoder.load_text = partial(load_text_side, weights.parent, encoder)
    if weights.name == WEIGHTS and kind_of(weights.with_name(HEAD1)) is not None:
        encoder.load_head1 = partial(load_head1, weights.with_name(HEAD1), encoder)
    return encoder.eval()


def weights_file(path: Path) -> Path:
    """The weights in a run folder, or the file itself."""
    kind = kind_of(path)
    if kind is None:
        raise UserError(f"there is no run folder or weights file {path}")
    file = path / WEIGHTS if kind == "folder" else path
    if kind_of(file) is None:
        raise UserError(f"{path} has no {WEIGHTS}: it is not a run folder, or has no checkpoint yet")
    require_file(file)
    return file


def reader_file(weights: Path) -> Path:
    """The reader of a weights file: ``photos.reader.safetensors`` next to ``photos.safetensors``."""
    if weights.name == WEIGHTS:
        return weights.with_name(READER)
    name = weights.stem if weights.suffix.lower() == ".safetensors" else weights.name
    return weights.with_name(f"{name}.{READER}")


def read_info(path: Path) -> EncoderInfo:
    """Read an ``encoder.json``; a newer format is refused."""
    if kind_of(path) is None:
        raise UserError(f"{path}, which describes the encoder, is missing")
    check_format(
        read_json(path, _FORMAT).get("format"), path
    )  # first, because a newer format may have other fields
    info = read_json(path, _INFO)
    for name, sound in _sound(info).items():
        if not sound:
            raise UserError(f"{path} is damaged: {name} cannot be {getattr(info, name)}")
    return info


def _sound(info: EncoderInfo) -> dict[str, bool]:
    """Whether each value is possible."""
    return {
        "image_size": 0 < info.image_size <= LARGEST_SIDE,
        "feature_dim": info.feature_dim > 0,
        "width": 0 < info.width <= LARGEST_WIDTH,
        "resize": info.resize is None or 0 < info.resize <= LARGEST_SIDE,
        "mean": 0 < len(info.mean) == len(info.std) <= MOST_CHANNELS
        and all(abs(value) <= LARGEST_NUMBER for value in info.mean),
        "options": all(name in OPTIONS and 0 < value <= 1024 for name, value in info.options.items()),
        "std": all(isfinite(value) and value > 1 / LARGEST_NUMBER for value in info.std),
    }
