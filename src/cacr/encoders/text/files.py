"""The text encoder of a run on disk: the folder ``text/`` next to ``encoder.safetensors``.

``text.json`` describes it and the weights it belongs to, ``heads.safetensors`` has both heads (and the tower of
``clip``), and ``tower/`` is a Hugging Face folder if the tower came from one. A tower that was not trained is stored
once, in the folder of the run: ``start/`` and ``best/`` have their own heads and share the tower.
"""

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter
from safetensors.torch import save
from torch import Tensor, nn

from cacr.config import FORMAT
from cacr.encoders.encoder import Encoder
from cacr.encoders.heads import HEADS, build_head
from cacr.encoders.reader_file import weights_digest
from cacr.encoders.text.clip_tower import ClipTower
from cacr.encoders.text.folder_tower import WEIGHTS, FolderTower
from cacr.encoders.text.side import TextSide
from cacr.encoders.text.tower import TextTower
from cacr.errors import UserError
from cacr.files import check_format, write_atomically
from cacr.reading.documents import read_json
from cacr.reading.files import kind_of, require_file
from cacr.reading.tensors import misfit, read_safetensors

FOLDER, TOWER, INFO, WEIGHTS_OF_HEADS = "text", "tower", "text.json", "heads.safetensors"
LARGEST = 65_536
"""Largest widths and dimensions in a ``text.json``, because it is built before its weights are compared."""


@dataclass(frozen=True)
class Heads:
    """Description of both heads.

    Attributes:
        head: Name of the head.
        hidden: Width of its hidden layers.
        dim: Dimension of the embeddings.
    """

    head: str
    hidden: int
    dim: int


@dataclass(frozen=True)
class TextInfo:
    """The content of ``text.json``.

    Attributes:
        kind: Kind of the tower: ``clip``, or ``folder`` for one of Hugging Face.
        context: Largest number of tokens of a sentence.
        width: Width of the tower ``clip``.
        layers: Number of layers of the tower ``clip``.
        trained: Whether the tower was trained.
        heads: Description of both heads.
        scale: Factor on cosines before a softmax.
        encoder: Digest of the image encoder's weights.
        files: Digests of the weight files, by name.
        format: Format version of the file.
    """

    kind: Literal["clip", "folder"]
    context: int
    width: int
    layers: int
    trained: bool
    heads: Heads
    scale: float
    encoder: str
    files: dict[str, str]
    format: int = FORMAT


_INFO = TypeAdapter(TextInfo)
_FORMAT = TypeAdapter(dict[str, object])


def save_text_side(folder: Path, side: TextSide, heads: Heads, encoder: Encoder, *, trained: bool) -> None:
    """Write the text encoder and heads next to an image encoder.

    Args:
        folder: Folder of the run, or another folder with the encoder's weights.
        side: What is written.
        heads: Description of its heads.
        encoder: The image encoder of the image head.
        trained: Whether the tower is trained; one that is not trained is written once.
    """
    place = folder / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    tower, described = side.tower, side.tower.describe()
    if isinstance(tower, FolderTower) and (trained or _tower_folder(place) is None):
        tower.save(place / TOWER)
    write_atomically(place / WEIGHTS_OF_HEADS, save(_cpu(_parts(side).state_dict()), {"format": "pt"}))
    shape = {name: int(str(described.get(name, 0))) for name in ("width", "layers", "context")}
    info = TextInfo(
        kind="folder" if isinstance(tower, FolderTower) else "clip",
        trained=trained,
        heads=heads,
        scale=side.scale,
        encoder=weights_digest(encoder),
        files=_digests(place),
        **shape,
    )
    write_atomically(place / INFO, (json.dumps(asdict(info), indent=2) + "\n").encode())


def has_text_side(folder: Path) -> bool:
    """Whether a folder has a text encoder."""
    return kind_of(folder / FOLDER / INFO) is not None


def own_tower(run: Path) -> Path | None:
    """The folder of the tower that is stored with a run; None if there is none."""
    return _tower_folder(run / FOLDER)


def load_text_side(folder: Path, encoder: Encoder) -> TextSide:
    """Load the text encoder and heads next to an image encoder, in evaluation mode.

    Raises:
        UserError: a file is damaged, or belongs to other weights.
    """
    place = folder / FOLDER
    info = _read_info(place / INFO)
    if info.encoder != weights_digest(encoder):
        raise UserError(
            f"{place} belongs to other weights than those of the encoder next to it: resume the run, which writes both"
        )
    for name, digest in _digests(place).items():
        if info.files.get(name) != digest:
            raise UserError(f"{place / name} is damaged: it is not the file that {INFO} was written for")
    if info.kind == "clip":
        tower: TextTower = ClipTower(info.width, info.layers, info.context)
    elif (found := _tower_folder(place)) is not None:
        tower = FolderTower(found, info.context)
    else:
        raise UserError(f"{place} is incomplete: its folder {TOWER} is missing")
    heads = [
        build_head(info.heads.head, dim, info.heads.dim, info.heads.hidden)
        for dim in (tower.dim, encoder.feature_dim)
    ]
    side = TextSide(tower.eval(), heads[0].eval(), heads[1].eval(), info.scale)
    parts, stored = _parts(side), read_safetensors(place / WEIGHTS_OF_HEADS)
    if wrong := misfit(parts.state_dict(), stored):
        raise UserError(f"{place / WEIGHTS_OF_HEADS} does not fit {INFO}: {wrong}")
    parts.load_state_dict(stored)
    return side


def _parts(side: TextSide) -> nn.ModuleDict:
    """The content of ``heads.safetensors``."""
    parts = nn.ModuleDict({"text_head": side.head, "image_head": side.image_head})
    if isinstance(side.tower, ClipTower):
        parts["tower"] = side.tower
    return parts


def _cpu(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}


def _tower_folder(place: Path) -> Path | None:
    """The folder of the tower: here, or in the run if this is its ``start`` or ``best``."""
    for folder in (place / TOWER, place.parent.parent / FOLDER / TOWER):
        if kind_of(folder) == "folder":
            return folder
    return None


def _digests(place: Path) -> dict[str, str]:
    """Digests of the weight files here, by name."""
    found = {}
    for name in (WEIGHTS_OF_HEADS, f"{TOWER}/{WEIGHTS}"):
        if kind_of(place / name) is not None:
            require_file(place / name)
            with (place / name).open("rb") as file:
                found[name] = file_digest(file, lambda: blake2b(digest_size=8)).hexdigest()
    return found


def _read_info(path: Path) -> TextInfo:
    check_format(
        read_json(path, _FORMAT).get("format"), path
    )  # first, because a newer format may have other fields
    info = read_json(path, _INFO)
    sizes = [info.context, info.heads.dim, info.heads.hidden]
    if info.kind == "clip":
        sizes += [info.width, info.layers]
    if (
        not all(0 < size <= LARGEST for size in sizes)
        or not 0 < info.scale <= 1e6
        or info.heads.head not in HEADS
    ):
        raise UserError(f"{path} is damaged: its sizes, scale or head are not possible")
    return info
