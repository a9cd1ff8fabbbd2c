"""When to store embeddings of one held-out batch, and its pictures; :mod:`cacr.runs.snapshots` has the files."""

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from cacr.diagnostics.embedding import HeldOutImages
from cacr.runs.snapshots import Pictures
from cacr.views.pixels import as_bytes, as_rgb, unnormalised

IMAGES = 128
"""Number of images in the batch: the first of those that are measured."""

QUERIES = 8
"""Number of images with pictures of all views; the other images have one picture."""

PICTURE = 48
"""Largest side of a picture, in pixels."""

FIRST_EPOCHS = (0, 1)
SHARES = (0.1, 0.3)
"""Embeddings are kept after these epochs, after these shares of all epochs and after the last one.

Of 200 epochs these are 0, 1, 20, 60 and 200; the paper shows 1, 20 and 200.
"""


def is_due(epoch: float, epochs: float, kept: list[float]) -> bool:
    """Whether to store embeddings after ``epoch`` of ``epochs``, if they were stored after the epochs ``kept``."""
    if not kept or epoch >= epochs:
        return True
    targets = [*FIRST_EPOCHS, *(share * epochs for share in SHARES)]
    return sum(target <= epoch for target in targets) > sum(target <= max(kept) for target in targets)


def draw_pictures(images: HeldOutImages) -> Pictures:
    """Small pictures of the batch, in its views and unchanged, from the images of this process.

    Fewer than :data:`IMAGES` if this process has fewer.
    """
    first: list[Tensor] = []
    queries: list[Tensor] = []
    originals: list[Tensor] = []
    side = min(PICTURE, *(view.size for view in images.views.augmentations))
    for views in images.chunks():
        seen = torch.cat([_small(x, images, side) for x in views])
        pictures = seen[images.random]
        first.append(pictures[0])
        queries.append(pictures[:, : QUERIES - sum(part.shape[1] for part in queries)])
        originals.append(seen[images.centre][0])
        if sum(map(len, first)) >= IMAGES:
            break
    return Pictures(torch.cat(first)[:IMAGES], torch.cat(queries, 1), torch.cat(originals)[:IMAGES])


def _small(views: Tensor, images: HeldOutImages, side: int) -> Tensor:
    """Views (views, images, 3, size, size) as small pictures, uint8."""
    pixels = as_rgb(unnormalised(views, images.views.mean, images.views.std))
    small = interpolate(pixels.flatten(0, 1), (side, side), mode="area")
    return as_bytes(small).view(*pixels.shape[:2], 3, side, side)
