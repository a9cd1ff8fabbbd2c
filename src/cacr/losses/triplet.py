"""Triplet losses, which are limits of CACR."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import relu

from cacr.losses.engine.arguments import check_choice, check_positive
from cacr.losses.engine.neighbours import nearest_key
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.engine.reductions import Keys, mean, mean_of
from cacr.losses.objective import OBJECTIVES, PairObjective

Mining = Literal["none", "hard"]


@OBJECTIVES.register("triplet")
class TripletLoss(PairObjective):
    """Triplet: positives closer than negatives by a margin, on average or for the hardest.

    The mean over queries i of max(0, c+_i - c-_i + margin), with squared distances and

        mining none:  c+ = mean_k c_ik,  c- = mean_j c_ij         CACR with a margin and uniform weights
        mining hard:  c+ = max_k c_ik,   c- = min_j c_ij          CACR with a margin, t+ and t- to infinity

    Args:
        margin: Margin between the squared distances of positives and negatives, above 0; beyond it a query has no
            loss.
        mining: ``none`` or ``hard``.
        negatives: In-batch negatives, see :func:`cacr.losses.engine.pairs.in_batch`.
    """

    def __init__(self, margin: float = 1.0, mining: Mining = "none", negatives: Negatives = "same") -> None:
        super().__init__()
        check_positive(margin=margin)
        check_choice(Mining, mining=mining)
        check_choice(Negatives, negatives=negatives)
        self.supports_ring = mining == "none"
        self.margin, self.mining, self.negatives = margin, mining, negatives

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, and the means of the ``positive`` and ``negative`` squared distances that it compares."""
        if self.mining == "hard":
            cosines = pairs.positives
            if pairs.absent is not None:
                cosines = cosines.masked_fill(pairs.absent, torch.inf)
            near = torch.stack([_hardest(pairs.queries, keys) for keys in pairs.negatives]).amax(0)
            far = cosines.amin(-1)
        else:
            far = mean_of(pairs.positives, 0.0, pairs.absent)
            near = mean(pairs.queries, pairs.negatives, 0.0, backend=self.backend)
        positive, negative = 2 - 2 * far, 2 - 2 * near
        loss = pairs.average(relu(pairs.of_owner(positive) - negative + self.margin))
        return {"loss": loss, "positive": pairs.average(positive), "negative": pairs.average(negative)}


def _hardest(queries: Tensor, keys: Keys) -> Tensor:
    """The cosine of each query with its most similar key, (G, M), with gradients to both."""
    place = nearest_key(queries, keys)
    if keys.vectors.dim() == 2:
        return (queries * keys.vectors[place]).sum(-1)
    chosen = keys.vectors.take_along_dim(place[..., None], -2)
    return (queries * chosen).sum(-1)
