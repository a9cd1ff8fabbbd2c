"""Contrastive learning with neighbours as additional positives (AdaCLR)."""

import torch
from torch import Tensor

from cacr.losses.engine.arguments import check_not_negative, check_positive, check_share
from cacr.losses.engine.gathered import GatheredCosines
from cacr.losses.engine.neighbours import nearest_keys
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.engine.reductions import lse, lse_of
from cacr.losses.objective import OBJECTIVES, PairObjective

NO_NEIGHBOURS = "neighbours need one set of keys that all views share: a queue, or 'all'"


@OBJECTIVES.register("adaclr")
class AdaCLRLoss(PairObjective):
    """AdaCLR: the nearest keys of a query are additional positives.

    With P the query's own positives and its ``neighbours`` most similar keys, found without gradient:

        loss = mean over queries of -1/|P| sum_{p in P} [s_p / tau - ln sum_a e^{s_a / tau}],  a over all others

    Without neighbours this is SupCon of the own views. The number of neighbours, and when they start, was never
    published in detail: both are settings, and their defaults are an approximation.

    Args:
        temperature: tau.
        neighbours: Number of keys of other images that are added; all of them if there are fewer.
        neighbours_from: Share of the run before they are used, because neighbours by random weights mean little. Use
            0 if the run starts from trained weights.
    """

    negatives: Negatives = "all"
    needs_shared_keys = NO_NEIGHBOURS

    def __init__(self, temperature: float = 0.1, neighbours: int = 1, neighbours_from: float = 0.5) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_not_negative(neighbours=neighbours)
        check_share(neighbours_from=neighbours_from)
        self.temperature, self.neighbours, self.neighbours_from = temperature, neighbours, neighbours_from
        self._joined = True

    def begin_step(self, step: int, total: int) -> None:
        """Use neighbours after a share of the run; if this is never called, from the first call of the loss."""
        self._joined = step >= self.neighbours_from * total

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, and ``positive``, the mean squared distance of own positives."""
        if pairs.partner is not None:
            raise ValueError(NO_NEIGHBOURS)
        scale = 1 / self.temperature
        logits, absent = scale * pairs.positives, pairs.absent
        everything = torch.logaddexp(
            lse_of(pairs.positives, scale, absent),
            lse(pairs.queries, pairs.negatives, scale, backend=self.backend),
        )
        present = torch.ones_like(logits) if absent is None else (~absent).expand_as(logits).to(logits.dtype)
        total, number = (logits * present).sum(-1), present.sum(-1)
        if self.neighbours and self._joined:
            near, found = self._neighbours(pairs)
            total, number = total + scale * near, number + found
        distance = pairs.average(2 - 2 * pairs.positives, absent)
        return {"loss": pairs.average(everything - total / number), "positive": distance}

    def _neighbours(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The sum of each query's cosines with its nearest keys, and their number: both (Q, M)."""
        keys = next((keys for keys in pairs.negatives if keys.vectors.dim() == 2), None)
        if keys is None:
            raise ValueError(NO_NEIGHBOURS)
        places = nearest_keys(pairs.queries, keys, min(self.neighbours, len(keys.vectors)))
        exists = places >= 0  # a small batch has fewer
        queries, index = pairs.queries.flatten(0, 1), places.clamp_min(0).flatten(0, 1)
        cosines: Tensor = GatheredCosines.apply(queries, keys.vectors, index)
        return (cosines.reshape(places.shape) * exists).sum(-1), exists.sum(-1)
