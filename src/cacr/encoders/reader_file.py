"""``reader.safetensors`` next to ``encoder.safetensors``: the reader of the features of exactly these weights."""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import torch
from pydantic import BaseModel, Field, ValidationError
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from cacr.config import FORMAT
from cacr.encoders.encoder import Encoder
from cacr.encoders.reader import Reader, ReaderKind
from cacr.errors import UserError
from cacr.files import check_format, write_atomically
from cacr.reading.documents import wrong_fields
from cacr.reading.files import kind_of, require_file
from cacr.reading.foreign import foreign
from cacr.reading.memory import require_memory

READER = "reader.safetensors"
_HINT = "remove it: a reader is then fitted to the images of each command"


class _Facts(BaseModel):
    """The metadata of the file, where all values are text."""

    kind: ReaderKind
    images: int = Field(ge=1)
    encoder: str


def save_reader(path: Path, reader: Reader, encoder: Encoder) -> None:
    """Write a reader, with a fingerprint of the weights that it belongs to."""
    tensors = {"mean": reader.mean} if reader.map is None else {"mean": reader.mean, "map": reader.map}
    facts = {
        "format": str(FORMAT),
        "kind": reader.kind,
        "images": str(reader.images),
        "encoder": weights_digest(encoder),
    }
    write_atomically(path, save({name: value.cpu().contiguous() for name, value in tensors.items()}, facts))


def load_reader(path: Path, encoder: Encoder) -> Reader | None:
    """The reader of an encoder; None if there is none, or if it belongs to other weights.

    A run that was resumed and interrupted has newer weights than its reader, which is then not used.

    Raises:
        UserError: the file is damaged, or was written by a newer version.
    """
    if kind_of(path) is None:
        return None
    require_file(path)
    require_memory(path.stat().st_size, str(path))
    with (
        foreign(f"{path} is not a readable safetensors file", _HINT),
        safe_open(path, framework="pt") as file,
    ):
        metadata = file.metadata() or {}
        # Copied: a tensor that is mapped to its file would crash the process if the file is truncated.
        stored = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (it is not a mapping)
    facts = _facts(metadata, path)
    if wrong := _wrong(stored, facts.kind, encoder.feature_dim):
        raise UserError(f"{path} is damaged: {wrong}; {_HINT}")
    if facts.encoder != weights_digest(encoder):
        return None
    return Reader(facts.kind, facts.images, stored["mean"], stored.get("map"))


def weights_digest(encoder: Encoder) -> str:
    """Sixteen digits that identify names, shapes and values of the weights, in any file."""
    return module_digest(encoder.backbone)


def module_digest(module: nn.Module) -> str:
    """The same for any module."""
    digest = blake2b(digest_size=8)
    for name, tensor in sorted(module.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        digest.update(values.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _facts(metadata: Mapping[str, str], path: Path) -> _Facts:
    version = metadata.get("format", "")
    check_format(int(version) if version.isdecimal() and len(version) < 10 else None, path)
    try:
        return _Facts.model_validate(metadata)
    except ValidationError as error:
        raise UserError(f"{path} is damaged: {wrong_fields(error)}; {_HINT}") from None


def _wrong(stored: Mapping[str, Tensor], kind: ReaderKind, dim: int) -> str:
    """What is wrong with the tensors; empty if they are a reader of features (n, dim)."""
    shapes = {"mean": 1, "map": 2} if kind in ("half_white", "white") else {"mean": 1}
    if stored.keys() != shapes.keys():
        return f"a reader of kind {kind} has {' and '.join(shapes)}, this one {' and '.join(stored) or 'nothing'}"
    for name, tensor in stored.items():
        if tensor.ndim != shapes[name] or len(tensor) != dim:
            return f"{name} has the shape {tuple(tensor.shape)}, but the encoder gives {dim} features"
        if tensor.dtype != torch.float32 or not tensor.numel() or not bool(torch.isfinite(tensor).all()):
            return f"{name} does not have finite numbers in single precision"
    return ""
