"""Encoders on disk: ``encoder.safetensors`` with ``encoder.json`` beside it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from pathlib import Path

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from cacr.encoders.build import build_encoder
from cacr.encoders.encoder import Encoder, EncoderInfo
from cacr.errors import UserError
from cacr.files import check_format, printable, write_atomically

WEIGHTS = "encoder.safetensors"
_INFO = TypeAdapter(EncoderInfo)


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


def load_encoder(path: str | os.PathLike[str]) -> Encoder:
    """The encoder of a run, in evaluation mode.

    Args:
        path: A run folder, or a ``.safetensors`` file with its ``.json`` beside it.

    Example:
        >>> encoder = load_encoder("runs/demo")                                       # doctest: +SKIP
        >>> features = encoder(encoder.preprocess("photo.jpg")[None])                 # doctest: +SKIP
    """
    weights = weights_file(Path(path))
    info = read_info(weights.with_suffix(".json"))
    encoder = build_encoder(info.encoder, image_size=info.image_size, width=info.width)
    stored = read_safetensors(weights)
    if wrong := _misfit(encoder.backbone.state_dict(), stored):
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
    return encoder.eval()


def weights_file(path: Path) -> Path:
    """The weights in a run folder, or the file itself."""
    file = path / WEIGHTS if path.is_dir() else path
    if not path.exists():
        raise UserError(f"there is no run folder or weights file {path}")
    if not file.exists():
        raise UserError(f"{path} holds no {WEIGHTS}: not a run folder, or its pretraining has not finished")
    return file


def _misfit(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> str:
    """In words what tensors of a file do not fit; empty if all do."""
    shapes = [name for name in stored if name in expected and stored[name].shape != expected[name].shape]
    kinds = {
        "lacking": [name for name in expected if name not in stored],
        "not its own": [name for name in stored if name not in expected],
        "of another shape": shapes,
    }
    return "; ".join(
        f"{len(names):,} tensors are {kind}, such as {printable(names[0])}"
        for kind, names in kinds.items()
        if names
    )


def read_info(path: Path) -> EncoderInfo:
    """What an ``encoder.json`` says; a newer format is refused."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}, which describes the encoder: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} is damaged: it holds no description of an encoder")
    check_format(values.get("format"), path)
    try:
        info = _INFO.validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise UserError(f"{path} is damaged: {wrong}") from None
    for name, sound in _sound(info).items():
        if not sound:
            raise UserError(f"{path} is damaged: {name} cannot be {getattr(info, name)}")
    return info


def _sound(info: EncoderInfo) -> dict[str, bool]:
    """Whether each value of the right type is also a possible one."""
    return {
        "image_size": info.image_size > 0,
        "feature_dim": info.feature_dim > 0,
        "width": isfinite(info.width) and info.width > 0,
        "resize": info.resize is None or info.resize > 0,
        "mean": all(isfinite(value) for value in info.mean),
        "std": all(isfinite(value) and value > 0 for value in info.std),
    }


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name."""
    try:
        state: dict[str, torch.Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} is not a readable safetensors file: {error}") from None
    return state
