"""Whether an objective can use a framework's pairs, found by trying it on a few numbers."""

from collections.abc import Callable

import torch
from torch import Tensor

from cacr.losses import Objective, Pairs


def why_not(
    objective: Objective, make_pairs: Callable[[Tensor, Tensor], Pairs], *, local: bool
) -> str | None:
    """What an objective says against pairs of this kind; None if it takes them.

    Args:
        objective: to try.
        make_pairs: queries (views, images, dim) and keys (key views, images, dim) -> pairs.
        local: whether a local crop is among the queries.
    """
    draw = torch.Generator().manual_seed(0)
    keys = torch.randn(2, 3, 4, generator=draw)
    queries = torch.randn(3 if local else 2, 3, 4, generator=draw)
    try:
        objective.parts(make_pairs(queries, keys))
    except (TypeError, ValueError) as error:
        return str(error)
    return None
