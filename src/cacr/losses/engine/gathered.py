"""Cosines of queries with keys given by position, without copying all these keys."""

from typing import Any

import torch
from torch import Tensor

from cacr.losses.engine.chunked import rows_per_block, slices
from cacr.losses.engine.full_precision import full_precision


class GatheredCosines(torch.autograd.Function):
    """s[i, n] = q_i . k_index[i, n], for queries (rows, dim), keys (keys, dim) and index (rows, n).

    Selecting the keys first would need (rows, n, dim); this needs one block of rows at a time, in both passes.
    """

    @staticmethod
    def forward(queries: Tensor, keys: Tensor, index: Tensor) -> Tensor:
        """The cosines (rows, n)."""
        with full_precision(queries.device):
            found = [torch.bmm(keys[index[r]], queries[r, :, None])[..., 0] for r in _rows(queries, index)]
        return torch.cat(found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        """Keep the inputs."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        """Uses plain operations, so that the gradient can be differentiated again."""
        queries, keys, index = ctx.saved_tensors
        (grad,) = grads
        grad_queries = []
        grad_keys = torch.zeros_like(keys)
        for r in _rows(queries, index):
            with full_precision(queries.device):
                grad_queries.append(torch.bmm(grad[r, None], keys[index[r]])[:, 0])
            pushed = grad[r, :, None] * queries[r, None]
            grad_keys.index_add_(0, index[r].flatten(), pushed.flatten(0, 1))
        return torch.cat(grad_queries), grad_keys, None


def _rows(queries: Tensor, index: Tensor) -> list[slice]:
    step = rows_per_block(index.shape[1] * queries.shape[1], queries.device)
    return list(slices(len(queries), step))
