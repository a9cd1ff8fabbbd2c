"""Log-sum-exp and softmax mean over keys, block by block: O(queries + keys) memory, exact gradients.

With s_j = q.k_j, weights w = softmax(a s), lse = ln sum_j exp(a s_j) and mean = sum_j w_j s_j:

    d lse / d s_j  = a w_j
    d mean / d s_j = w_j (1 + a (s_j - mean)),      or w_j where the weights are held constant.

The forward pass keeps the running maximum of a block-wise (online) softmax. The backward pass computes each block of
similarities again from queries and keys, so nothing of size (queries, keys) is ever in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cacr.losses.engine.caches import block_bytes, block_shape
from cacr.losses.engine.masks import Mask

# Rows and keys of a block: it fits into a core's caches, or fills a GPU.
_BLOCK_CPU = block_shape(block_bytes())
_BLOCK_ACCELERATOR = (4096, 4096)


def slices(size: int, step: int) -> Iterator[slice]:
    """Slices of ``step`` that cover ``range(size)``."""
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def rows_per_block(width: int, device: torch.device) -> int:
    """Number of rows of ``width`` numbers in one block."""
    height, keys = _block(device)
    return max(1, height * keys // max(1, width))


def block_reductions(
    queries: Tensor, keys: Tensor, mask: Mask | None, scales: tuple[float, ...], product: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(lse, mean), each (scales, batch, rows), of queries (batch, rows, dim) over keys (batch, keys, dim)."""
    dtype = torch.promote_types(queries.dtype, torch.float32)
    lse = queries.new_empty((len(scales), *queries.shape[:2]), dtype=dtype)
    mean = torch.empty_like(lse)
    for b, r, key_slices in _plan(queries, keys):
        top = torch.full_like(lse[:, b, r], torch.finfo(dtype).min)
        total, weighted = torch.zeros_like(top), torch.zeros_like(top)
        for c in key_slices:
            s = _similarities(queries[b, r], keys[b, c], product, dtype)
            for n, scale in enumerate(scales):
                logits = _logits(s, scale, mask, r, c)
                new_top = torch.maximum(top[n], logits.amax(-1))
                weights = logits.sub_(new_top[:, None]).exp_()
                fade = (top[n] - new_top).exp_()
                total[n] = total[n] * fade + weights.sum(-1)
                weighted[n] = weighted[n] * fade + weights.mul_(s).sum(-1)
                top[n] = new_top
        lse[:, b, r] = top + total.log()
        mean[:, b, r] = weighted / total
    return lse, mean


@dataclass(frozen=True)
class Slopes:
    """d loss / d s = w (level + slope s), a linear function of s per query and scale; each (scales, batch, rows).

    Attributes:
        lse: gives the weights w = exp(a s - lse).
        level: constant term of the function.
        slope: its slope.
    """

    lse: Tensor
    level: Tensor
    slope: Tensor

    @classmethod
    def of(
        cls,
        scales: tuple[float, ...],
        weight_grad: bool,
        lse: Tensor,
        mean: Tensor,
        grad_lse: Tensor,
        grad_mean: Tensor,
    ) -> "Slopes":
        """From the reductions and their gradients."""
        a = torch.tensor(scales, dtype=lse.dtype, device=lse.device)[:, None, None]
        slope = a * grad_mean if weight_grad else torch.zeros_like(grad_mean)
        return cls(lse, a * grad_lse + grad_mean - slope * mean, slope)


def block_gradients(
    queries: Tensor,
    keys: Tensor,
    mask: Mask | None,
    scales: tuple[float, ...],
    product: torch.dtype,
    slopes: Slopes,
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of queries and of keys, if ``needed``; ``slopes`` may belong to more keys than these."""
    dtype = slopes.lse.dtype
    grad_queries = torch.zeros_like(queries, dtype=dtype) if needed[0] else None
    grad_keys = torch.zeros_like(keys, dtype=dtype) if needed[1] else None
    for b, r, key_slices in _plan(queries, keys):
        for c in key_slices:
            s = _similarities(queries[b, r], keys[b, c], product, dtype)
            grad_s = None
            for n, scale in enumerate(scales):
                weights = torch.add(-slopes.lse[n, b, r, None], s, alpha=scale).exp_()
                if mask is not None:
                    mask.hide_(weights, 0.0, r, c)
                weights.mul_(s.mul(slopes.slope[n, b, r, None]).add_(slopes.level[n, b, r, None]))
                grad_s = weights if grad_s is None else grad_s.add_(weights)
            assert grad_s is not None  # there is at least one scale
            grad_s = grad_s.to(product)
            if grad_queries is not None:
                grad_queries[b, r] += grad_s @ keys[b, c].to(product)
            if grad_keys is not None:
                grad_keys[b, c] += grad_s.T @ queries[b, r].to(product)
    return [
        None if grad_queries is None else grad_queries.to(queries.dtype),
        None if grad_keys is None else grad_keys.to(keys.dtype),
    ]


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
        """One pass over the blocks; ``product`` is the data type of the products."""
        return block_reductions(queries, keys, mask, scales, product)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep only the embeddings and the two reductions, nothing of size (queries, keys)."""
        queries, keys, ctx.mask, ctx.scales, ctx.weight_grad, ctx.product = inputs
        ctx.save_for_backward(queries, keys, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute each block again; its gradient is added directly to those of queries and keys."""
        queries, keys, lse, mean = ctx.saved_tensors
        with torch.no_grad():
            slopes = Slopes.of(ctx.scales, ctx.weight_grad, lse, mean, *grads)
            found = block_gradients(
                queries, keys, ctx.mask, ctx.scales, ctx.product, slopes, ctx.needs_input_grad[:2]
            )
        return (*first_order(found, (queries, keys)), None, None, None, None)


class FirstOrder(torch.autograd.Function):
    """A gradient that raises an error if it is differentiated again with respect to its source."""

    @staticmethod
    def forward(gradient: Tensor, source: Tensor) -> Tensor:
        """The gradient itself."""
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Nothing to keep."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Raise an error, because the gradient would silently count as a constant."""
        raise RuntimeError("second-order gradients need the dense backend: set loss.backend = 'dense'")


def first_order(gradients: Sequence[Tensor | None], sources: Sequence[Tensor]) -> list[Tensor | None]:
    """The same gradients, protected against differentiating again."""
    if not torch.is_grad_enabled():
        return list(gradients)
    return [
        None if gradient is None else FirstOrder.apply(gradient, source)
        for gradient, source in zip(gradients, sources, strict=True)
    ]


def _plan(queries: Tensor, keys: Tensor) -> Iterator[tuple[int, slice, list[slice]]]:
    """The blocks: for each batch and slice of rows, the slices of keys."""
    height, width = _block(queries.device)
    key_slices = list(slices(keys.shape[1], width))
    for b in range(len(queries)):
        for r in slices(queries.shape[1], height):
            yield b, r, key_slices


def _block(device: torch.device) -> tuple[int, int]:
    return _BLOCK_CPU if device.type == "cpu" else _BLOCK_ACCELERATOR


def _similarities(queries: Tensor, keys: Tensor, product: torch.dtype, dtype: torch.dtype) -> Tensor:
    return (queries.to(product) @ keys.to(product).T).to(dtype)


def _logits(s: Tensor, scale: float, mask: Mask | None, rows: slice, keys: slice) -> Tensor:
    """``scale * s`` in a new tensor; hidden keys get the smallest finite number: its exp is 0, never NaN."""
    logits = s * scale
    return logits if mask is None else mask.hide_(logits, torch.finfo(s.dtype).min, rows, keys)
