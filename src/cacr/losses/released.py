"""Objectives of the authors' released code, where it differs from the paper.

Three code bases were released with the paper. These are their settings:

- *small scale* (in-batch): cross-view negatives of the upper triangle, ``negatives="cross_upper"``, instead of the
  paper's same-view negatives.
- *MoCo-v2*: pi+ without gradient, as in the paper's Algorithm 3, and pi- with constant queue distances, where the
  paper has gradients. Use it with :func:`cacr.losses.engine.pairs.queued`.
- *MoCo-v3*: :class:`ReleasedMoCoV3Loss`, which is not the paper's objective.

Known bugs of that code, described here and not reproduced: the MoCo-v2 code caches the queue's distances of the first
view and uses them for all views; the Euclidean MoCo-v3 loss is summed over the batch, not averaged; the debiased
variant (``tau_plus``) subtracts the correction instead of adding it.
"""

from typing import Literal

import torch
from torch import Tensor

from cacr.losses.cacr import CACRLoss
from cacr.losses.engine.arguments import check_choice, check_positive
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.engine.reductions import mean
from cacr.losses.info_nce import one_vs_many
from cacr.losses.objective import OBJECTIVES, PairObjective

ReleasedCost = Literal["rbf", "euclidean"]


def released_small_scale(t_neg: float = 2.0, t_pos: float = 1.0) -> CACRLoss:
    """The objective of the small-scale code: cross-view negatives of the upper triangle.

    For CIFAR-10, CIFAR-100 and STL-10 the paper has t- = 2, 3, 3 with one positive and t- = 0.9, 2, 2 with four;
    the commands of the code's README have the latter.
    """
    return CACRLoss(t_pos=t_pos, t_neg=t_neg, negatives="cross_upper")


def released_moco_v2(t_neg: float = 2.0, t_pos: float = 1.0) -> CACRLoss:
    """The objective of the MoCo-v2 code: no gradient through pi+ and through the queue's part of pi-."""
    return CACRLoss(t_pos=t_pos, t_neg=t_neg, pos_grad=False, queue_grad=False)


@OBJECTIVES.register("released_moco_v3")
class ReleasedMoCoV3Loss(PairObjective):
    """The objective of the authors' MoCo-v3 code, by default MoCo-v3 with weighted queries.

    The key is the anchor: for key view a, p_b = softmax over the queries b != a of ||q_b - k_a||^2 / T, no
    gradient. The mean over key views a and images i of sum_b p_b l_ab, with

        rbf:        l_ab = 2 T * cross-entropy of q_b.k_a / T against all keys of view a; there is no pi-
        euclidean:  l_ab = (1 - q_b.k_ai) - sum_{j != i} pi-_j (1 - q_b.k_aj)

    and pi- = softmax(q_b.k_aj / T) without gradient. With one query per key, ``rbf`` is exactly half of MoCo-v3's own
    loss. Use it with :func:`cacr.losses.engine.pairs.momentum`.

    Args:
        temperature: T; 1 for ResNet-50 and 0.2 for ViT in the released commands.
        cost: ``rbf`` or ``euclidean``.
    """

    negatives: Negatives = "cross"
    fixed_negatives = "ReleasedMoCoV3Loss needs cross-view negatives: momentum(..., negatives='cross')"
    supports_ring = True

    def __init__(self, temperature: float = 1.0, cost: ReleasedCost = "rbf") -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_choice(ReleasedCost, cost=cost)
        self.temperature, self.cost = temperature, cost

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``."""
        if pairs.key_view is None:
            raise ValueError(self.fixed_negatives)
        cosines = pairs.opposed()[0][..., 0]
        scale = 1 / self.temperature
        if self.cost == "rbf":
            losses = 2 * self.temperature * one_vs_many(pairs, scale, self.backend)[..., 0]
        else:
            repelled = mean(pairs.queries, pairs.negatives, scale, weight_grad=False, backend=self.backend)
            losses = repelled - cosines
        anchors = sorted(set(pairs.key_view))
        shares = torch.empty_like(losses)
        for anchor in anchors:
            groups = [g for g, view in enumerate(pairs.key_view) if view == anchor]
            shares[groups] = torch.softmax(scale * (2 - 2 * cosines[groups].detach()), 0)
        return {"loss": pairs.average((shares * losses).sum(0)) / len(anchors)}
