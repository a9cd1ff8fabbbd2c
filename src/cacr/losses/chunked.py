"""Log-sum-exp and softmax mean over keys, block by block: memory in O(queries + keys), exact gradients.

With s_j = q.k_j, weights w = softmax(a s), lse = ln sum_j exp(a s_j) and mean = sum_j w_j s_j:

    d lse / d s_j  = a w_j
    d mean / d s_j = w_j (1 + a (s_j - mean)),      or w_j where the weights are detached.

The forward pass keeps the running maximum of a block-wise (online) softmax; the backward pass computes each
block of similarities again from the queries and keys, so that nothing of size (queries, keys) is ever held.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cacr.losses.masks import Mask

KEYS_PER_BLOCK = 2048


def blocks(size: int, step: int) -> Iterator[slice]:
    """Slices of ``step`` that cover ``range(size)``."""
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def rows_per_block(queries: Tensor, width: int) -> int:
    """How many queries make a block of ``width`` keys that stays in a processor's cache, or fills a GPU."""
    elements = 1 << 20 if queries.device.type == "cpu" else 1 << 24
    return max(1, elements // (queries.shape[0] * width))


class Chunked(torch.autograd.Function):
    """(lse, mean), each (scales, batch, rows), of queries (batch, rows, dim) over keys (batch, keys, dim)."""

    @staticmethod
    def forward(
        queries: Tensor,
        keys: Tensor,
        mask: Mask | None,
        scales: tuple[float, ...],
        weight_grad: bool,
        product: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """One pass over the blocks with a running maximum for each scale."""
        batch, rows = queries.shape[:2]
        kind = torch.promote_types(queries.dtype, torch.float32)
        lse = queries.new_empty((len(scales), batch, rows), dtype=kind)
        mean = torch.empty_like(lse)
        width = min(KEYS_PER_BLOCK, keys.shape[1])
        for r in blocks(rows, rows_per_block(queries, width)):
            top = [torch.full_like(lse[0, :, r], torch.finfo(kind).min) for _ in scales]
            total = [torch.zeros_like(lse[0, :, r]) for _ in scales]
            weighted = [torch.zeros_like(lse[0, :, r]) for _ in scales]
            for c in blocks(keys.shape[1], width):
                s = _similarities(queries[:, r], keys[:, c], product, kind)
                hidden = None if mask is None else mask.hidden(r, c)
                for n, a in enumerate(scales):
                    logits = _logits(s, a, hidden)
                    new_top = torch.maximum(top[n], logits.amax(-1))
                    weights = logits.sub_(new_top[..., None]).exp_()
                    fade = (top[n] - new_top).exp_()
                    total[n] = total[n] * fade + weights.sum(-1)
                    weighted[n] = weighted[n] * fade + weights.mul_(s).sum(-1)
                    top[n] = new_top
            for n in range(len(scales)):
                lse[n, :, r] = top[n] + total[n].log()
                mean[n, :, r] = weighted[n] / total[n]
        return lse, mean

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep the embeddings and the two reductions, nothing of size (queries, keys)."""
        queries, keys, ctx.mask, ctx.scales, ctx.weight_grad, ctx.product = inputs
        ctx.save_for_backward(queries, keys, *output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Each block again; its gradient goes straight into the gradients of queries and keys."""
        queries, keys, lse, mean = ctx.saved_tensors
        grad_lse, grad_mean = grads
        grad_queries = torch.zeros_like(queries, dtype=lse.dtype) if ctx.needs_input_grad[0] else None
        grad_keys = torch.zeros_like(keys, dtype=lse.dtype) if ctx.needs_input_grad[1] else None
        width = min(KEYS_PER_BLOCK, keys.shape[1])
        for r in blocks(queries.shape[1], rows_per_block(queries, width)):
            for c in blocks(keys.shape[1], width):
                s = _similarities(queries[:, r], keys[:, c], ctx.product, lse.dtype)
                hidden = None if ctx.mask is None else ctx.mask.hidden(r, c)
                grad_s = torch.zeros_like(s)
                for n, a in enumerate(ctx.scales):
                    weights = _logits(s, a, hidden).sub_(lse[n, :, r, None]).exp_()
                    slope = (
                        a * grad_mean[n, :, r] if ctx.weight_grad else torch.zeros_like(grad_mean[n, :, r])
                    )
                    level = a * grad_lse[n, :, r] + grad_mean[n, :, r] - slope * mean[n, :, r]
                    grad_s.addcmul_(weights, torch.addcmul(level[..., None], slope[..., None], s))
                grad_s = grad_s.to(ctx.product)
                if grad_queries is not None:
                    grad_queries[:, r] += torch.bmm(grad_s, keys[:, c].to(ctx.product))
                if grad_keys is not None:
                    grad_keys[:, c] += torch.bmm(grad_s.mT, queries[:, r].to(ctx.product))
        return (
            None if grad_queries is None else grad_queries.to(queries.dtype),
            None if grad_keys is None else grad_keys.to(keys.dtype),
            None,
            None,
            None,
            None,
        )


def _similarities(queries: Tensor, keys: Tensor, product: torch.dtype, kind: torch.dtype) -> Tensor:
    return torch.bmm(queries.to(product), keys.to(product).mT).to(kind)


def _logits(s: Tensor, scale: float, hidden: Tensor | None) -> Tensor:
    """``scale * s`` as a new tensor, the hidden keys at the least finite number (exp gives 0, never NaN)."""
    logits = s * scale
    return logits if hidden is None else logits.masked_fill_(hidden, torch.finfo(s.dtype).min)
