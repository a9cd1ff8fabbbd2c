"""Soft labels of keys (ASCL), and sums of keys by them: block by block, with exact gradients of the keys.

The labels follow from similarities between keys and are held. Only the sums have a gradient, which needs the same
labels again: the backward pass computes each block anew, so nothing of size (anchors, keys) is ever in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cacr.losses.engine.full_precision import full_precision, product_dtype
from cacr.losses.engine.masks import Mask
from cacr.losses.engine.neighbours import similarity_blocks
from cacr.losses.engine.reductions import Keys, aligned


@dataclass(frozen=True)
class SoftLabels:
    """The labels of keys by their similarities s_j to an anchor, p = softmax_j(s_j / temperature).

        1 for the anchor, min(1, neighbours (1 - H(p) / ln N) p_j) for N keys, then divided by their sum

    Attributes:
        temperature: Smaller values make p more certain.
        neighbours: Number of neighbours of an anchor.
    """

    temperature: float
    neighbours: float

    def of(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """The labels of anchors (..., rows) and of keys (..., rows, keys); similarities are -inf for hidden keys."""
        p = torch.softmax(s / self.temperature, -1)
        count = torch.isfinite(s).sum(-1, keepdim=True)
        entropy = torch.special.entr(p).sum(-1, keepdim=True)
        sure = 1 - entropy / count.clamp_min(2).to(s.dtype).log()
        labels = (self.neighbours * sure * p).clamp_(0, 1)
        total = 1 + labels.sum(-1, keepdim=True)
        return (1 / total)[..., 0], labels / total


def labelled_sum(anchors: Tensor, keys: Keys, soft: SoftLabels) -> tuple[Tensor, Tensor]:
    """The label of each anchor itself, (W, M), and the sum of all keys times their labels, (W, M, dim).

    The gradient flows through the keys that are summed, not through their labels.

    Args:
        anchors: (W, M, dim) unit vectors.
        keys: Keys shared by all W, (keys, dim).
        soft: How labels follow from similarities.
    """
    rows, _, mask = aligned(anchors.detach(), keys)
    product = product_dtype(anchors)
    with full_precision(anchors.device):
        own, sums = _LabelledSum.apply(keys.vectors, rows, mask, soft, product)
    return own.reshape(anchors.shape[:2]), sums.reshape(anchors.shape)


class _LabelledSum(torch.autograd.Function):
    """(own (rows,), sums (rows, dim)) of keys (keys, dim) and anchors (1, rows, dim)."""

    @staticmethod
    def forward(
        keys: Tensor, anchors: Tensor, mask: Mask | None, soft: SoftLabels, product: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """One pass over blocks of anchors; ``product`` is the data type of the products."""
        owns, sums = [], []
        for _, own, labels in _blocks(keys, anchors, mask, soft, product):
            owns.append(own)
            sums.append((labels.to(product) @ keys.to(product)).to(own.dtype))
        return torch.cat(owns), torch.cat(sums)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep keys and anchors; the own labels are constants."""
        keys, anchors, ctx.mask, ctx.soft, ctx.product = inputs
        ctx.save_for_backward(keys, anchors)
        ctx.mark_non_differentiable(output[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Uses plain operations, so that the gradient can be differentiated again."""
        keys, anchors = ctx.saved_tensors
        grad = grads[1].to(ctx.product)
        found = torch.zeros_like(keys)
        with full_precision(keys.device):
            for r, _, labels in _blocks(keys, anchors, ctx.mask, ctx.soft, ctx.product):
                found = found + (labels.to(ctx.product).T @ grad[r]).to(found.dtype)
        return found, None, None, None, None


def _blocks(
    keys: Tensor, anchors: Tensor, mask: Mask | None, soft: SoftLabels, product: torch.dtype
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Slices of anchors with their own labels (rows,) and the labels of keys (rows, keys), as constants."""
    for r, s in similarity_blocks(anchors.to(product), Keys(keys.detach(), mask), -torch.inf):
        own, labels = soft.of(s[0])
        yield r, own, labels
