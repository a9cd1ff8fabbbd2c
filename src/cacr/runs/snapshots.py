"""One batch of held-out images with its embeddings at a few epochs, from which figures are drawn.

``diagnostics/batch.safetensors`` has small pictures of the batch, written once, and
``diagnostics/step-00001234.safetensors`` has its embeddings after that step. Together they take a few megabytes;
figures can be drawn without the data.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from cacr.errors import UserError
from cacr.files import write_atomically
from cacr.reading.files import kind_of, require_file
from cacr.reading.foreign import foreign
from cacr.reading.memory import require_memory
from cacr.reading.tensors import read_safetensors

PICTURES = "batch.safetensors"
_NAME = re.compile(r"step-(\d{8})\.safetensors")
_HINT = "remove it"


@dataclass(frozen=True)
class Snapshot:
    """The embeddings of the batch at one step.

    Attributes:
        step: number of optimiser steps.
        epoch: number of epochs.
        z: (views, images, dim) unit embeddings, float32.
    """

    step: int
    epoch: float
    z: Tensor


@dataclass(frozen=True)
class Pictures:
    """Small pictures of the batch, uint8.

    Attributes:
        first: (images, 3, side, side) the first random view of each image.
        queries: (views, queries, 3, side, side) all views of the first images.
        originals: (images, 3, side, side) the images themselves, cropped at the centre if they are not square; None in
            runs of earlier versions.
    """

    first: Tensor
    queries: Tensor
    originals: Tensor | None = None


def write_snapshot(folder: Path, snapshot: Snapshot) -> None:
    """Store the embeddings, in half precision."""
    folder.mkdir(exist_ok=True)
    z = snapshot.z.half().cpu().contiguous()
    path = folder / f"step-{snapshot.step:08d}.safetensors"
    write_atomically(path, save({"z": z}, {"epoch": f"{snapshot.epoch:g}"}))


def write_pictures(folder: Path, pictures: Pictures) -> None:
    """Store the pictures."""
    folder.mkdir(exist_ok=True)
    content = {"first": pictures.first.contiguous(), "queries": pictures.queries.contiguous()}
    if pictures.originals is not None:
        content["originals"] = pictures.originals.contiguous()
    write_atomically(folder / PICTURES, save(content))


def drop_snapshots_after(folder: Path, step: int) -> None:
    """Remove snapshots that a resumed run will write again."""
    for at, path in _files(folder):
        if at > step:
            require_file(path)
            path.unlink()


def read_snapshots(folder: Path) -> list[Snapshot]:
    """All snapshots of a run, in order.

    Raises:
        UserError: a file is damaged, or belongs to another batch than the one before it.
    """
    found: list[Snapshot] = []
    for step, path in _files(folder):
        snapshot = _read_snapshot(path, step)
        if found and snapshot.z.shape != found[0].z.shape:
            shapes = " and ".join(str(tuple(each.z.shape)) for each in (found[0], snapshot))
            raise UserError(f"{path} belongs to another batch than those before it ({shapes}): {_HINT}")
        found.append(snapshot)
    return found


def read_pictures(folder: Path) -> Pictures | None:
    """The pictures of a run; None if there are none.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / PICTURES
    if kind_of(path) is None:
        return None
    stored = read_safetensors(path)
    first, queries = (stored.get(name, torch.empty(0)) for name in ("first", "queries"))
    originals = stored.get("originals")
    sound = (
        first.dtype == queries.dtype == torch.uint8
        and (first.ndim, queries.ndim) == (4, 5)
        and first.shape[1:] == queries.shape[2:]
        and first.shape[1] == 3
        and 0 < queries.shape[1] <= len(first)
        and first.numel() > 0
        and queries.numel() > 0
        and (originals is None or (originals.dtype == torch.uint8 and originals.shape == first.shape))
    )
    if not sound:
        shapes = f"first: {tuple(first.shape)}, queries: {tuple(queries.shape)}"
        raise UserError(f"{path} is damaged: it has no pictures of a batch ({shapes}); {_HINT}")
    return Pictures(first, queries, originals)


def _files(folder: Path) -> Iterator[tuple[int, Path]]:
    """(step, file) of each snapshot, in order."""
    for path in sorted(folder.glob("step-*.safetensors")):
        if match := _NAME.fullmatch(path.name):
            yield int(match[1]), path


def _read_snapshot(path: Path, step: int) -> Snapshot:
    require_file(path)
    require_memory(2 * path.stat().st_size, str(path))
    with foreign(f"{path} is damaged", _HINT), safe_open(path, framework="pt") as file:
        epoch, z = float(file.metadata()["epoch"]), file.get_tensor("z").float()
    sound = z.ndim == 3 and min(z.shape[:2]) >= 2 and z.shape[2] >= 1
    if not sound or not bool(torch.isfinite(z).all()) or not isfinite(epoch):
        raise UserError(
            f"{path} is damaged: it has no finite embeddings (views, images, dim) of a batch; {_HINT}"
        )
    return Snapshot(step, epoch, z)
