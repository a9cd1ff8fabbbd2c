"""One batch of held-out images, kept with its embeddings at a few epochs: what figures are drawn from.

``diagnostics/batch.safetensors`` holds small pictures of the batch, written once, and
``diagnostics/step-00001234.safetensors`` its embeddings after so many steps. Together they take a few megabytes,
and the data is not needed to draw from them.
"""

import re
from dataclasses import dataclass

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import interpolate

from cacr.diagnostics.embedding import HeldOutImages
from cacr.errors import UserError
from cacr.files import write_atomically
from cacr.runs.folder import RunFolder

IMAGES = 128
"""Images of the batch, the first ones of those that are measured."""

QUERIES = 8
"""Images of which all views are kept as pictures; of the others the first one is."""

PICTURE = 48
"""Largest side of a picture, in pixels."""

FIRST_EPOCHS = (0, 1)
SHARES = (0.1, 0.3)
"""Embeddings are kept after these epochs, after these shares of all epochs and after the last one.

Of 200 epochs these are 0, 1, 20, 60 and 200; the paper shows 1, 20 and 200.
"""

_NAME = re.compile(r"step-(\d{8})\.safetensors")


@dataclass(frozen=True)
class Snapshot:
    """The batch as the model saw it.

    Attributes:
        step: after so many optimiser steps.
        epoch: after so many epochs.
        z: (views, images, dim) unit embeddings, float32.
    """

    step: int
    epoch: float
    z: Tensor


def is_due(epoch: float, epochs: int, kept: list[float]) -> bool:
    """Whether embeddings are kept after ``epoch`` of ``epochs``, where they were after the epochs ``kept``."""
    if not kept or epoch >= epochs:
        return True
    targets = [*FIRST_EPOCHS, *(share * epochs for share in SHARES)]
    return sum(target <= epoch for target in targets) > sum(target <= max(kept) for target in targets)


def write_pictures(run: RunFolder, images: HeldOutImages) -> int:
    """Store small pictures of the batch, as the views show it, from this process's images.

    Returns:
        The number of images of the batch; less than :data:`IMAGES` where this process has fewer.
    """
    first: list[Tensor] = []
    queries: list[Tensor] = []
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in (images.views.mean, images.views.std))
    for views in images.chunks():
        random = torch.cat(views)[1:].cpu() * std + mean
        side = min(PICTURE, random.shape[-1])
        small = interpolate(random.flatten(0, 1), (side, side), mode="area")
        pictures = (255 * small).round().clamp(0, 255).to(torch.uint8).view(*random.shape[:2], 3, side, side)
        first.append(pictures[0])
        queries.append(pictures[:, : QUERIES - sum(part.shape[1] for part in queries)])
        if sum(map(len, first)) >= IMAGES:
            break
    content = {"first": torch.cat(first)[:IMAGES].contiguous(), "queries": torch.cat(queries, 1).contiguous()}
    run.diagnostics.mkdir(exist_ok=True)
    write_atomically(run.diagnostics / "batch.safetensors", save(content))
    return len(content["first"])


def write_snapshot(run: RunFolder, snapshot: Snapshot) -> None:
    """Store the embeddings, in half precision."""
    run.diagnostics.mkdir(exist_ok=True)
    path = run.diagnostics / f"step-{snapshot.step:08d}.safetensors"
    z = snapshot.z.half().cpu().contiguous()
    write_atomically(path, save({"z": z}, {"epoch": f"{snapshot.epoch:g}"}))


def drop_snapshots_after(run: RunFolder, step: int) -> None:
    """Forget what a resumed run will see again."""
    for path in run.diagnostics.glob("step-*.safetensors"):
        match = _NAME.fullmatch(path.name)
        if match and int(match[1]) > step:
            path.unlink()


def read_snapshots(run: RunFolder) -> list[Snapshot]:
    """All that a run has, the first one first."""
    found = []
    for path in sorted(run.diagnostics.glob("step-*.safetensors")):
        match = _NAME.fullmatch(path.name)
        if match:
            try:
                with safe_open(path, framework="pt") as file:
                    epoch, z = float(file.metadata()["epoch"]), file.get_tensor("z").float()
            except (SafetensorError, KeyError, TypeError, ValueError) as error:
                raise UserError(f"{path} is damaged ({error}): remove it") from None
            found.append(Snapshot(int(match[1]), epoch, z))
    return found


@dataclass(frozen=True)
class Pictures:
    """Small pictures of the batch, uint8.

    Attributes:
        first: (images, 3, side, side) the first random view of each image.
        queries: (views, queries, 3, side, side) all views of the first images.
    """

    first: Tensor
    queries: Tensor


def read_pictures(run: RunFolder) -> Pictures:
    """The pictures of a run.

    Raises:
        UserError: there are none.
    """
    path = run.diagnostics / "batch.safetensors"
    try:
        with safe_open(path, framework="pt") as file:
            return Pictures(file.get_tensor("first"), file.get_tensor("queries"))
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{run.path} has no pictures of its held-out images ({error}): diagnostics were off, "
            "or it was trained by an earlier version"
        ) from None
