"""The two reductions over keys that every objective is made of, and the choice of how to compute them.

For a query q, keys k_j, similarities s_j = q.k_j and a scale a:

    lse_a(q)  = ln sum_j exp(a s_j)
    mean_a(q) = sum_j softmax(a s)_j s_j          (= d lse_a / d a)

Softmax and log-sum-exp over keys are computed only here. Three backends agree in value and gradient, and so does a
fourth, :mod:`cacr.losses.engine.ring`, for keys that are distributed over processes:

- ``dense`` has the (queries, keys) matrix in memory; plain operations, so second-order gradients work too;
- ``chunked`` has one block of it in memory at a time, and computes it again in the backward pass;
- ``attention`` computes the mean by ``scaled_dot_product_attention``:
  mean_a(q) = q . Attention(q, K, V=K, scale=a).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from cacr.losses.engine.arguments import check_choice
from cacr.losses.engine.chunked import Chunked
from cacr.losses.engine.full_precision import full_precision, product_dtype
from cacr.losses.engine.masks import Mask
from cacr.losses.engine.ring import Circulated, Ring

Backend = Literal["auto", "dense", "chunked", "attention"]

# Up to this number of similarities the plain operations are faster than blocks, and their memory does not matter.
_DENSE_LIMIT_CPU = 1 << 20
_DENSE_LIMIT_ACCELERATOR = 1 << 24


@dataclass(frozen=True)
class Reduced:
    """``lse()`` and ``mean()`` over keys, each (..., rows), computed when they are called."""

    lse: Callable[[], Tensor]
    mean: Callable[[], Tensor]


@dataclass(frozen=True)
class Keys:
    """One set of keys that queries are compared with.

    Attributes:
        vectors: (..., keys, dim) with the queries' leading dimensions, or (keys, dim) shared by all of them.
        mask: Hides some keys from some queries.
        queue: Whether they come from a queue of earlier keys.
        ring: The processes over which the keys are distributed; ``vectors`` (views, images, dim) are then the share
            of this process, and a query sees all keys except those of its own image. None: all keys are here.
        views: With a ring, the view whose keys each group of queries sees; None: all views in one set.
    """

    vectors: Tensor
    mask: Mask | None = None
    queue: bool = False
    ring: Ring | None = None
    views: tuple[int, ...] | None = None

    @property
    def count(self) -> int | Tensor:
        """Number of keys that a query sees; (rows,) if labels hide some."""
        if self.ring is not None:
            return (len(self.vectors) if self.views is None else 1) * (self.ring.total - 1)
        keys = self.vectors.shape[-2]
        return keys if self.mask is None else self.mask.visible(keys)


def lse(queries: Tensor, keys: Tensor | Sequence[Keys], scale: float, *, backend: Backend = "auto") -> Tensor:
    """The log-sum-exp ln sum_j exp(scale q.k_j), (..., rows).

    Args:
        queries: (..., rows, dim).
        keys: (..., keys, dim), or (keys, dim) shared by all leading dimensions; or several sets of keys with masks,
            whose union is used.
        scale: Any finite number; 0 gives ln of the number of keys.
        backend: ``auto`` chooses by size and device.
    """
    return reduce(queries, keys, scale, backend=backend).lse()


def mean(
    queries: Tensor,
    keys: Tensor | Sequence[Keys],
    scale: float,
    *,
    weight_grad: bool = True,
    queue_grad: bool = True,
    backend: Backend = "auto",
) -> Tensor:
    """The softmax mean sum_j softmax_j(scale q.k_j) q.k_j, (..., rows).

    Args:
        queries: As for :func:`lse`.
        keys: As for :func:`lse`.
        scale: As for :func:`lse`.
        weight_grad: Whether the gradient flows through the weights. If not, it is that of lse / scale.
        queue_grad: The same for the part of the weights from queue keys.
        backend: As for :func:`lse`; ``attention`` takes one set without a mask, and ``weight_grad``.
    """
    sets = _sets(keys)
    flows = _flows(sets, weight_grad, queue_grad)
    if _attends(sets, flows, backend):
        return _attention_mean(queries, sets[0].vectors, scale)
    return _reduce(queries, sets, scale, flows, backend).mean()


def reduce(
    queries: Tensor, keys: Tensor | Sequence[Keys], scale: float, *, backend: Backend = "auto"
) -> Reduced:
    """Both reductions, from one pass over the keys; arguments as for :func:`lse`."""
    sets = _sets(keys)
    return _reduce(queries, sets, scale, [True] * len(sets), backend)


def log_mean_exp(
    queries: Tensor,
    keys: Tensor | Sequence[Keys],
    scale: float,
    exponent: float,
    *,
    weight_grad: bool = True,
    queue_grad: bool = True,
    backend: Backend = "auto",
) -> Tensor:
    """The log of a softmax mean of exponentials, ln sum_j softmax(a s)_j exp(b s_j) = lse_{a+b} - lse_a.

    Arguments as for :func:`mean`, with a the ``scale`` and b the ``exponent``.
    """
    above, below = [], []
    sets = _sets(keys)
    for part, flow in zip(sets, _flows(sets, weight_grad, queue_grad), strict=True):
        total, weights = _reduce_set(queries, part, (scale + exponent, scale), False, backend)
        if flow:
            above.append(total.lse())
        else:  # with constant weights the gradient is b softmax((a + b) s), that of b mean_{a+b} with constant weights
            held = total.mean()
            above.append(total.lse().detach() + exponent * (held - held.detach()))
        below.append(_held(weights.lse(), flow))
    return torch.logsumexp(torch.stack(above), 0) - torch.logsumexp(torch.stack(below), 0)


def lse_of(s: Tensor, scale: float, hidden: Tensor | None = None) -> Tensor:
    """The log-sum-exp over the last dimension of given similarities (..., rows, keys)."""
    return torch.logsumexp(_logits(s, scale, hidden), -1)


def mean_of(s: Tensor, scale: float, hidden: Tensor | None = None, *, weight_grad: bool = True) -> Tensor:
    """The softmax mean over the last dimension of given similarities (..., rows, keys)."""
    weights = torch.softmax(_logits(_held(s, weight_grad), scale, hidden), -1)
    return (weights * s).sum(-1)


def similarities(queries: Tensor, keys: Tensor) -> Tensor:
    """All q.k, (..., rows, keys), at least float32; the product itself in the type of the queries or of autocast."""
    product = torch.matmul(queries, keys.to(queries.dtype).mT)
    return product.to(torch.promote_types(queries.dtype, torch.float32))


def aligned(queries: Tensor, keys: Keys) -> tuple[Tensor, Tensor, Mask | None]:
    """Queries (batch, rows, dim) and keys (batch, keys, dim); queries that share keys become one batch."""
    if keys.vectors.dim() > 2:
        return queries.flatten(0, -3), keys.vectors.flatten(0, -3), keys.mask
    repeats = queries.shape[:-2].numel()
    mask = keys.mask.repeat(repeats) if keys.mask is not None and repeats > 1 else keys.mask
    return queries.reshape(1, -1, queries.shape[-1]), keys.vectors[None], mask


def _reduce(
    queries: Tensor, keys: Sequence[Keys], scale: float, flows: Sequence[bool], backend: Backend
) -> Reduced:
    """Reduce each set, then combine: lse = ln sum_A exp(lse_A), mean = sum_A exp(lse_A - lse) mean_A."""
    parts = [
        _reduce_set(queries, part, (scale,), flow, backend)[0] for part, flow in zip(keys, flows, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    lses = [part.lse() for part in parts]
    logits = torch.stack([_held(one, flow) for one, flow in zip(lses, flows, strict=True)])
    means = torch.stack([part.mean() for part in parts])
    return Reduced(
        lambda: torch.logsumexp(torch.stack(lses), 0), lambda: (torch.softmax(logits, 0) * means).sum(0)
    )


def _reduce_set(
    queries: Tensor, part: Keys, scales: tuple[float, ...], weight_grad: bool, backend: Backend
) -> list[Reduced]:
    """Both reductions over one set of keys; the similarities are computed once for all scales."""
    shape = queries.shape[:-1]
    product = product_dtype(queries)
    if part.ring is not None:
        _check_ring(backend)
        rows = queries.flatten(0, 1)[None] if part.views is None else queries
        with full_precision(queries.device):
            lses, means = Circulated.apply(
                rows, part.vectors, part.ring, part.views, scales, weight_grad, product
            )
    else:
        queries, keys, mask = aligned(queries, part)
        if _is_dense(queries, keys, backend):
            s = similarities(queries, keys)
            hidden = None if mask is None else mask.hidden(s)
            return [_dense(s, scale, hidden, weight_grad, shape) for scale in scales]
        # torch.compile refuses one tensor as two arguments; a view of it is a different tensor.
        keys = keys.view_as(keys)
        with full_precision(queries.device):
            lses, means = Chunked.apply(queries, keys, mask, scales, weight_grad, product)
    return [_computed(lses[n].reshape(shape), means[n].reshape(shape)) for n in range(len(scales))]


def _dense(s: Tensor, scale: float, hidden: Tensor | None, weight_grad: bool, shape: torch.Size) -> Reduced:
    return Reduced(
        lambda: lse_of(s, scale, hidden).reshape(shape),
        lambda: mean_of(s, scale, hidden, weight_grad=weight_grad).reshape(shape),
    )


def _computed(lse: Tensor, mean: Tensor) -> Reduced:
    return Reduced(lambda: lse, lambda: mean)


def _check_ring(backend: Backend) -> None:
    check_choice(Backend, backend=backend)
    if backend in ("dense", "attention"):
        raise ValueError(
            f"backend {backend!r} needs all keys in one process, but these are distributed over a ring"
        )


def _is_dense(queries: Tensor, keys: Tensor, backend: Backend) -> bool:
    check_choice(Backend, backend=backend)
    if backend == "attention":
        raise ValueError(
            "backend 'attention' only gives means over one set of keys, without a mask, with weight_grad=True"
        )
    if backend != "auto":
        return backend == "dense"
    limit = _DENSE_LIMIT_CPU if queries.device.type == "cpu" else _DENSE_LIMIT_ACCELERATOR
    return queries.shape[0] * queries.shape[1] * keys.shape[1] <= limit


def _attends(keys: Sequence[Keys], flows: Sequence[bool], backend: Backend) -> bool:
    """Whether attention is used: if it is forced, or if fused kernels need no matrix and are faster than blocks.

    On a CPU blocks are faster: attention computes seven products, blocks need three or four.
    """
    if len(keys) > 1 or keys[0].mask is not None or keys[0].ring is not None or not flows[0]:
        return False
    vectors = keys[0].vectors
    fused = vectors.device.type == "cuda" and vectors.dtype != torch.float64
    return backend == "attention" or (backend == "auto" and fused)


def _attention_mean(queries: Tensor, keys: Tensor, scale: float) -> Tensor:
    shape = queries.shape[:-1]
    queries, keys, _ = aligned(queries, Keys(keys))
    keys = keys.to(queries.dtype)[:, None]
    # Fused kernels take the maximum before scaling: a negative scale is moved into the queries.
    signed = (queries if scale >= 0 else -queries)[:, None]
    read = scaled_dot_product_attention(signed, keys, keys, scale=abs(scale))[:, 0]
    return (queries * read).sum(-1, dtype=torch.promote_types(queries.dtype, torch.float32)).reshape(shape)


def _sets(keys: Tensor | Sequence[Keys]) -> Sequence[Keys]:
    return (Keys(keys),) if isinstance(keys, Tensor) else keys


def _flows(keys: Sequence[Keys], weight_grad: bool, queue_grad: bool) -> list[bool]:
    """Whether gradients flow through the weights of each set."""
    return [weight_grad and (queue_grad or not part.queue) for part in keys]


def _logits(s: Tensor, scale: float, hidden: Tensor | None) -> Tensor:
    """The logits, with the smallest finite number for hidden keys: their weight is 0, never NaN."""
    logits = scale * s
    return logits if hidden is None else logits.masked_fill(hidden, torch.finfo(s.dtype).min)


def _held(x: Tensor, flow: bool) -> Tensor:
    """The tensor itself, or a constant for the backward pass."""
    return x if flow else x.detach()
