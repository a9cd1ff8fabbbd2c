"""Decide which embeddings are positives and negatives, for every objective.

A builder turns embeddings (views, images, dim) into :class:`Pairs`; an objective takes pairs and does not know where
they come from. So every objective works with in-batch negatives, momentum keys, a queue, image-text pairs and labels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from cacr.losses.engine.arguments import check_choice
from cacr.losses.engine.full_precision import full_precision
from cacr.losses.engine.gathered import GatheredCosines
from cacr.losses.engine.masks import Mask
from cacr.losses.engine.reductions import Keys
from cacr.losses.engine.ring import Ring

Negatives = Literal["same", "cross", "cross_upper", "all"]

NO_LOCAL_KEYS = (
    "negatives 'same' need keys of every view, but local crops have none: use other views, 'cross' or 'all'"
)


@dataclass(frozen=True)
class Pairs:
    """Queries with the cosines of their positives and the keys of their negatives.

    Attributes:
        positives: (Q, M, K) cosine of each query (Q query views, M images) with each of its K positives.
        absent: (Q, M, K), broadcastable; true if a query has fewer than K positives. None: all have K.
        queries: (G, M, dim) unit vectors, one group per softmax over negatives.
        negatives: The sets of keys whose union is the negatives of the queries.
        owner: (G,) the query view, a row of ``positives``, that a group belongs to.
        partner: (G,) the single positive, a column of ``positives``, that is compared with a group's negatives:
            cross-view negatives come from the view of that positive. None: every positive of the query.
        key_view: (G,) the view of that positive and of the group's negatives, if there is one.
        ring: The processes that share the batch, if these are only the queries of this process.
        keys: (W, M, dim) unit vectors of the positives, if every positive is a key of the same image.
        key_of: The rows of ``keys`` that are the positives of each query view, K or fewer.
    """

    positives: Tensor
    absent: Tensor | None
    queries: Tensor
    negatives: tuple[Keys, ...]
    owner: tuple[int, ...]
    partner: tuple[int, ...] | None = None
    key_view: tuple[int, ...] | None = None
    ring: Ring | None = None
    keys: Tensor | None = None
    key_of: tuple[tuple[int, ...], ...] = ()

    def opposed(self) -> tuple[Tensor, Tensor | None]:
        """The positives that are compared with each group's negatives, (G, M, K'), and where they are absent."""
        if self.partner is not None:
            return self.positives[list(self.owner), :, list(self.partner)][..., None], None
        return self.positives, self.absent

    def of_owner(self, x: Tensor) -> Tensor:
        """Values of the query views (Q, ...), per group (G, ...)."""
        return x if self.owner == tuple(range(len(x))) else x[list(self.owner)]

    def by_key(self) -> tuple[Tensor, Tensor | None]:
        """The positives of the keys: (W, M, B) cosines with B queries, and where there are fewer."""
        holders: dict[int, list[tuple[int, int]]] = {}
        for row, keys in enumerate(self.key_of):
            for column, key in enumerate(keys):
                holders.setdefault(key, []).append((row, column))
        if not holders:
            raise ValueError("these pairs have no keys to be anchors: pairs from labels have none")
        ordered = [held for _, held in sorted(holders.items())]
        most = max(map(len, ordered))
        places = torch.tensor([(held * most)[:most] for held in ordered], device=self.positives.device)
        rows, columns = places.unbind(-1)
        return self.positives[rows, :, columns].transpose(1, 2), _absent(ordered, self.positives.device)

    def cosines_with(self, vectors: Tensor) -> Tensor:
        """Products of each query with ``vectors`` (W, M, dim) instead of the keys of its positives, (Q, M, K)."""
        return _cosines(self.queries, vectors, self.key_of)

    def log_count(self) -> Tensor:
        """The log of the number of negatives of each query, (M,) or a scalar."""
        count = sum(keys.count for keys in self.negatives)
        return torch.as_tensor(count, dtype=self.queries.dtype, device=self.queries.device).log()

    def average(self, x: Tensor, absent: Tensor | None = None) -> Tensor:
        """The mean of values that are not absent, over all queries, including those of other processes of a ring.

        Args:
            x: Values per query, with a dimension for the images: (M,), (G, M) or (Q, M, K).
            absent: Broadcastable to ``x``; with a ring, the same for all images.
        """
        if absent is None and self.ring is None:
            return x.mean()
        present = None if absent is None else (~absent).expand_as(x)
        total = x.sum() if present is None else torch.where(present, x, 0).sum()
        number = x.numel() if present is None else present.sum()
        if self.ring is None:
            return total / number
        return self.ring.sum(total) / number * (self.ring.images / self.ring.total)

    def log_mean_exp(self, x: Tensor) -> Tensor:
        """The log of a mean, ln mean_i exp(x_i), over the images of each group, (G,); x is (G, M)."""
        if self.ring is not None:
            return self.ring.log_mean_exp(x)
        return torch.logsumexp(x, -1) - math.log(x.shape[-1])


def unit(z: Tensor) -> Tensor:
    """Normalise vectors along the last dimension, at least in float32.

    A zero vector has no direction: it stays zero and receives no gradient.
    """
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    length = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    smallest = torch.finfo(z.dtype).tiny ** 0.5
    scale: Tensor = length.clamp_min(smallest).reciprocal() * (length > smallest)
    return z * scale


def in_batch(
    z: Tensor,
    negatives: Negatives = "same",
    *,
    query_views: Sequence[int] | None = None,
    key_views: Sequence[int] | None = None,
    ring: Ring | None = None,
) -> Pairs:
    """Positives are the other views of an image; negatives come from the other images of the batch.

    Args:
        z: (views, images, dim), normalised here.
        negatives: For a query z[v, i], in each case j != i:

            - ``same``: z[v, j], the same view, the paper's equation (M-1 negatives);
            - ``cross``: z[v', j] for each other view v', one softmax per view (M-1);
            - ``cross_upper``: as ``cross``, only for v < v', the authors' released code;
            - ``all``: z[v', j] of all key views in one softmax (V(M-1)).
        query_views: The views that may be queries, such as all crops. Default: all.
        key_views: The views that may be positives and cross-view negatives: global crops. Default: all.
        ring: Other processes with more images of the batch, whose embeddings are also negatives. None: ``z`` is the
            whole batch.
    """
    _check_embeddings(z)
    z = unit(z)
    queries = range(len(z)) if query_views is None else query_views
    keys = range(len(z)) if key_views is None else key_views
    if negatives == "same" and not set(queries) <= set(keys):
        raise ValueError(NO_LOCAL_KEYS)
    return _arrange(z, z, [(v, w) for v in queries for w in keys if v != w], negatives, ring)


def positives_only(
    queries: Tensor,
    keys: Tensor | None = None,
    *,
    key_views: Sequence[int] | None = None,
    ring: Ring | None = None,
) -> Pairs:
    """The other views of each image, for objectives without negatives.

    Args:
        queries: (query views, images, dim); normalised here.
        keys: (key views, images, dim); normalised here. Default: the queries.
        key_views: As for :func:`momentum`.
        ring: As for :func:`in_batch`.
    """
    keys = queries if keys is None else keys
    _check_embeddings(queries, "queries")
    _check_embeddings(keys, "keys")
    q, k = unit(queries), unit(keys)
    found = _positives(q, k, _links(queries, keys, None, key_views))
    q = _take(q, found.views)
    owner = tuple(range(len(q)))
    return Pairs(found.cosines, found.absent, q, (), owner, None, None, ring, k, found.key_of)


def momentum(
    queries: Tensor,
    keys: Tensor,
    negatives: Negatives = "cross",
    *,
    query_views: Sequence[int] | None = None,
    key_views: Sequence[int] | None = None,
    ring: Ring | None = None,
) -> Pairs:
    """Queries (views, images, dim) compared with keys (key views, images, dim) of a momentum encoder.

    Positives of the query of view v are the keys of other views; negatives are those of :func:`in_batch`, with keys
    instead of embeddings. Gradients reach the keys if the caller does not detach them.

    Args:
        queries: (query views, images, dim); normalised here.
        keys: (key views, images, dim); normalised here. Fewer views if local crops are only queries.
        negatives: As for :func:`in_batch`.
        query_views: View of each row of ``queries``. Default: 0, 1, 2, ...
        key_views: View of each row of ``keys``. Default: 0, 1, 2, ...; others need ``cross`` or ``all``.
        ring: As for :func:`in_batch`.
    """
    _check_embeddings(queries, "queries")
    _check_embeddings(keys, "keys")
    if negatives in ("same", "cross_upper") and (query_views is not None or key_views is not None):
        raise ValueError(f"negatives {negatives!r} need views in their order; use 'cross' or 'all'")
    return _arrange(unit(queries), unit(keys), _links(queries, keys, query_views, key_views), negatives, ring)


def queued(
    queries: Tensor,
    keys: Tensor,
    queue: Tensor,
    *,
    in_batch: bool = True,
    query_views: Sequence[int] | None = None,
    key_views: Sequence[int] | None = None,
    ring: Ring | None = None,
) -> Pairs:
    """MoCo-v2: positives are momentum keys; negatives are a queue of earlier keys and the queries' own batch.

    Args:
        queries: (query views, images, dim); normalised here.
        keys: (key views, images, dim) of the momentum encoder; normalised here.
        queue: (size, dim), unit vectors.
        in_batch: Whether q[v, j], j != i, are also negatives, in one softmax with the queue.
        query_views: As for :func:`momentum`.
        key_views: As for :func:`momentum`.
        ring: As for :func:`in_batch`; every process has the whole queue.
    """
    _check_embeddings(queries, "queries")
    _check_embeddings(keys, "keys")
    q = unit(queries)
    k = unit(keys)
    found = _positives(q, k, _links(queries, keys, query_views, key_views))
    q = _take(q, found.views)
    negatives = [Keys(queue, queue=True)]
    if in_batch:
        negatives.append(_other_images(q, list(range(len(q))), ring))
    owner = tuple(range(len(q)))
    return Pairs(found.cosines, found.absent, q, tuple(negatives), owner, None, None, ring, k, found.key_of)


def image_text(images: Tensor, texts: Tensor, *, ring: Ring | None = None) -> Pairs:
    """Images and captions: positives and negatives of an image are captions, and vice versa.

    Args:
        images: (images, dim), or (views, images, dim) with several crops of an image; normalised here.
        texts: (images, dim), or (captions, images, dim) with several captions of an image; normalised here.
        ring: As for :func:`in_batch`.
    """
    images, texts = (z[None] if z.dim() == 2 else z for z in (images, texts))
    z = torch.cat([images, texts])
    _check_embeddings(z)
    sides = range(len(images)), range(len(images), len(z))
    links = [(v, w) for here, there in (sides, sides[::-1]) for v in here for w in there]
    z = unit(z)
    return _arrange(z, z, links, "cross", ring)


def labelled(z: Tensor, labels: Tensor) -> Pairs:
    """Rows with the same label are positives of each other; rows with another label are negatives.

    A row whose label occurs once, or is the only label, is not a query; it is still a negative of the others.

    Args:
        z: (rows, dim); normalised here.
        labels: (rows,) integers.
    """
    if z.dim() != 2 or labels.shape != z.shape[:1]:
        raise ValueError(
            "embeddings must have shape (rows, dim) and labels (rows,), "
            f"not {tuple(z.shape)} and {tuple(labels.shape)}"
        )
    z = unit(z)
    _, member, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    query = torch.where((sizes[member] > 1) & (sizes[member] < len(z)))[0]
    if not len(query):
        raise ValueError("labels must give at least one row both a positive and a negative")
    # Rows in the order of their labels; the positives of a row follow it, cyclically, within its own label.
    order = member.argsort(stable=True)
    first = (sizes.cumsum(0) - sizes)[member]
    place = torch.empty_like(order).index_copy_(0, order, torch.arange(len(z), device=z.device)) - first
    size = sizes[member][query]
    step = torch.arange(1, int(size.max()), device=z.device)
    index = order[first[query, None] + (place[query, None] + step) % size[:, None]]
    cosines = GatheredCosines.apply(z[query], z, index)
    negatives = Keys(z, Mask(labels=(labels[query], labels)))
    return Pairs(cosines[None], (step >= size[:, None])[None], z[query][None], (negatives,), (0,))


def _arrange(
    q: Tensor, k: Tensor, links: list[tuple[int, int]], negatives: Negatives, ring: Ring | None = None
) -> Pairs:
    """Pairs from unit vectors and ``links``, the (query view, key view) pairs that are positives."""
    check_choice(Negatives, negatives=negatives)
    found = _positives(q, k, links)
    views = found.views
    if negatives in ("cross", "cross_upper"):
        kept = [(v, w) for v, w in links if negatives == "cross" or v < w]
        queries = _take(q, [v for v, _ in kept])
        keys = _other_images(k, [w for _, w in kept], ring)
        owner = tuple(views.index(v) for v, _ in kept)
        partner = tuple([w for u, w in links if u == v].index(w) for v, w in kept)
        key_view = tuple(w for _, w in kept)
        return Pairs(
            found.cosines, found.absent, queries, (keys,), owner, partner, key_view, ring, k, found.key_of
        )
    queries, owner = _take(q, views), tuple(range(len(views)))
    if negatives == "same" and views[-1] >= len(k):
        raise ValueError(NO_LOCAL_KEYS)
    if negatives == "same":
        keys = _other_images(k, views, ring)
    else:
        keys = _other_images(k, sorted({w for _, w in links}), ring, shared=True)
    return Pairs(found.cosines, found.absent, queries, (keys,), owner, ring=ring, keys=k, key_of=found.key_of)


class _Positives(NamedTuple):
    """The query views, their cosines with positives (Q, M, K), where these are absent, and their rows of keys."""

    views: list[int]
    cosines: Tensor
    absent: Tensor | None
    key_of: tuple[tuple[int, ...], ...]


def _positives(q: Tensor, k: Tensor, links: list[tuple[int, int]]) -> _Positives:
    """The positives of unit vectors q (views, M, dim) among k (key views, M, dim), by ``links``."""
    if q.shape[1] != k.shape[1]:
        raise ValueError(f"queries show {q.shape[1]} images, keys {k.shape[1]}: they must be the same images")
    views = sorted({v for v, _ in links})
    if not views:
        raise ValueError("no query has a positive: at least 2 views of every image are needed")
    key_of = tuple(tuple(w for u, w in links if u == v) for v in views)
    return _Positives(views, _cosines(_take(q, views), k, key_of), _absent(key_of, q.device), key_of)


def _absent(lists: Sequence[Sequence[Any]], device: torch.device) -> Tensor | None:
    """(lists, 1, longest), true where a list is shorter than the longest; None if all have equal length."""
    most = max(map(len, lists))
    if all(len(each) == most for each in lists):
        return None
    return torch.tensor([[n >= len(each) for n in range(most)] for each in lists], device=device)[:, None]


def _cosines(q: Tensor, k: Tensor, key_of: Sequence[Sequence[int]]) -> Tensor:
    """Products of each row of q (Q, M, dim) with its rows of k (W, M, dim), per image: (Q, M, K)."""
    # One small product per image gives all pairs of views; autocast would round costs near zero.
    with full_precision(q.device):
        cosines = torch.bmm(q.transpose(0, 1), k.permute(1, 2, 0)).flatten(1)
    most = max(map(len, key_of))  # absent ones are filled with the first one
    place = [v * len(k) + w for v, ws in enumerate(key_of) for w in (*ws, *[ws[0]] * most)[:most]]
    cosines = cosines.index_select(1, torch.tensor(place, device=q.device))
    return cosines.reshape(-1, len(key_of), most).transpose(0, 1)


def _take(z: Tensor, views: list[int]) -> Tensor:
    """These views of z; z itself, not a copy, if they are all views."""
    return z if views == list(range(len(z))) else z.index_select(0, torch.tensor(views, device=z.device))


def _other_images(k: Tensor, views: list[int], ring: Ring | None, *, shared: bool = False) -> Keys:
    """The keys of images other than the query's own.

    Args:
        k: (key views, M, dim).
        views: For each group of queries, the view of its keys.
        ring: As for :func:`in_batch`.
        shared: Every group sees the keys of all ``views`` instead.
    """
    if (k.shape[1] if ring is None else ring.total) < 2:
        raise ValueError("in-batch negatives need at least 2 images in the batch")
    if ring is None:
        keys = _take(k, views)
        return Keys(keys.flatten(0, 1) if shared else keys, Mask(k.shape[1]))
    distinct = sorted(set(views))  # each is sent once, for all groups that use it
    of_group = None if shared else tuple(distinct.index(v) for v in views)
    return Keys(_take(k, distinct), ring=ring, views=of_group)


def _links(
    queries: Tensor,
    keys: Tensor,
    query_views: Sequence[int] | None = None,
    key_views: Sequence[int] | None = None,
) -> list[tuple[int, int]]:
    """The rows of queries and keys that show different views."""
    here = range(len(queries)) if query_views is None else query_views
    there = range(len(keys)) if key_views is None else key_views
    if len(here) != len(queries) or len(there) != len(keys):
        raise ValueError("query_views and key_views must have one view per row of queries and keys")
    return [(a, b) for a, v in enumerate(here) for b, w in enumerate(there) if v != w]


def _check_embeddings(z: Tensor, name: str = "z") -> None:
    if z.dim() != 3:
        raise ValueError(f"{name} must have shape (views, images, dim), not {tuple(z.shape)}")
