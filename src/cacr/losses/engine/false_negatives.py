"""False-negative cancellation (FNC): negatives that are similar to the image itself."""

from dataclasses import replace

import torch
from torch import Tensor

from cacr.losses.engine.masks import Mask
from cacr.losses.engine.neighbours import nearest_to_image
from cacr.losses.engine.pairs import Pairs

SHARED_KEYS = (
    "false negatives are looked for in one set of keys that all views share: negatives 'all' of the batch, "
    "without a queue or captions"
)


def find_false_negatives(pairs: Pairs, top: int, threshold: float) -> Tensor:
    """The positions of each image's false negatives among the keys, (images, n); -1 fills unused places.

    They are the ``top`` keys most similar to any view of the image whose cosine is above ``threshold``.
    """
    if len(pairs.negatives) != 1 or pairs.negatives[0].vectors.dim() != 2:
        raise ValueError(SHARED_KEYS)
    keys = pairs.negatives[0]
    cosines, places = nearest_to_image(pairs.queries, keys, min(top, len(keys.vectors)))
    return torch.where(cosines > threshold, places, -1)


def without(pairs: Pairs, places: Tensor) -> Pairs:
    """The pairs with the keys at ``places`` (images, n) hidden from each image."""
    (keys,) = pairs.negatives
    mask = Mask() if keys.mask is None else keys.mask
    return replace(pairs, negatives=(replace(keys, mask=replace(mask, dropped=places)),))


def cosines_at(pairs: Pairs, places: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of each query's cosines with the keys at ``places`` (images, n), and their number."""
    chosen = pairs.negatives[0].vectors[places.clamp_min(0)]
    cosines = (pairs.queries[:, :, None] * chosen).sum(-1)
    exists = places >= 0
    return (cosines * exists).sum(-1, keepdim=True), exists.sum(-1, keepdim=True).expand(
        *cosines.shape[:2], 1
    )
