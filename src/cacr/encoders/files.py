"""Encoders on disk: ``encoder.safetensors`` with ``encoder.json`` beside it."""

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
"""What ``encoder.json`` may say of image sizes, of the width and of means: far above what an
encoder can be, but for the width, whose bound is the setting's: it is built before its weights are compared."""

MOST_CHANNELS = 256
"""Of the images that an encoder takes."""

OPTIONS = frozenset({"num_heads"})
"""Arguments of timm's models that a description may give."""


def save_encoder(folder: Path, encoder: Encoder, info: EncoderInfo) -> None:
    """Write ``encoder.safetensors`` and ``encoder.json`` into a run folder, each whole or not at all.

    The weights are those of the backbone under its own names, so that timm loads the file of a timm encoder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.cpu().contiguous() for name, tensor in encoder.backbone.state_dict().items()}
    weights = folder / WEIGHTS
    write_atomically(weights, save(state, metadata={"format": "pt"}))
    description = json.dumps(asdict(info), indent=2) + "\n"
    write_atomically(weights.with_suffix(".json"), description.encode())


def load_stored(path: Path, *, with_reader: bool = True) -> Encoder:
    """An encoder that this package wrote, in evaluation mode, with its reader where one is stored for these weights.

    Args:
        path: A run folder, or a ``.safetensors`` file with its ``.json`` beside it.
        with_reader: Look for a reader; without it a damaged one does not matter.
    """
    weights = weights_file(path)
    info = read_info(weights.with_suffix(".json"))
    encoder = build_like(info)
    stored = read_safetensors(weights)
    if wrong := misfit(encoder.backbone.state_dict(), stored):
        raise UserError(
            f"{weights} does not hold the encoder that its .json describes ({info.encoder}): {wrong}"
        )
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
        raise UserError(f"{path} holds no {WEIGHTS}: not a run folder, or its pretraining has not finished")
    require_file(file)
    return file


def reader_file(weights: Path) -> Path:
    """Where the reader of a weights file lies: ``photos.reader.safetensors`` beside ``photos.safetensors``."""
    if weights.name == WEIGHTS:
        return weights.with_name(READER)
    name = weights.stem if weights.suffix.lower() == ".safetensors" else weights.name
    return weights.with_name(f"{name}.{READER}")


def read_info(path: Path) -> EncoderInfo:
    """What an ``encoder.json`` says; a newer format is refused."""
    if kind_of(path) is None:
        raise UserError(f"cannot read {path}, which describes the encoder: there is no such file")
    check_format(read_json(path, _FORMAT).get("format"), path)  # first: a newer format may have other fields
    info = read_json(path, _INFO)
    for name, sound in _sound(info).items():
        if not sound:
            raise UserError(f"{path} is damaged: {name} cannot be {getattr(info, name)}")
    return info


def _sound(info: EncoderInfo) -> dict[str, bool]:
    """Whether each value of the right type is also a possible one."""
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
