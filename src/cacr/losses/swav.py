"""Swapped prediction of cluster assignments (SwAV)."""

import torch
from torch import Tensor

from cacr.losses.engine.arguments import check_positive
from cacr.losses.engine.full_precision import full_precision
from cacr.losses.engine.ring import Ring
from cacr.losses.engine.scores import Scores
from cacr.losses.objective import OBJECTIVES, Given, Input, Objective


@torch.no_grad()
def sinkhorn(scores: Tensor, epsilon: float, iterations: int, ring: Ring | None = None) -> Tensor:
    """Soft assignments (..., images, prototypes) that use every prototype equally often.

    Rows and columns of exp(scores / epsilon) are normalised in turn, in log space; in the end each row sums to 1.

    Args:
        scores: (..., images, prototypes).
        epsilon: softness of the assignments.
        iterations: number of iterations of both normalisations.
        ring: processes with more images: the sum of a prototype is over all of them.
    """
    logits = scores / epsilon
    for _ in range(iterations):
        # a mean instead of the sum is a constant factor, which the last line removes
        used = torch.logsumexp(logits, -2) if ring is None else ring.log_mean_exp(logits.mT)
        logits = logits - used[..., None, :]
        logits = logits - torch.logsumexp(logits, -1, keepdim=True)
    return logits.exp()


@OBJECTIVES.register("swav")
class SwAVLoss(Objective):
    """SwAV: predict one view's cluster assignment from another view.

    Scores are cosines with prototypes, which belong to the framework ``prototypes``. The assignments q_v =
    sinkhorn(scores_v) of the assigning views are targets, without gradient, for every other view w: the mean over (v,
    w) and images of
    -sum_p q_vp ln softmax_p(scores_w / tau). With ``loss(scores)`` and a tensor (views, images, prototypes), all views
    assign.

    Args:
        temperature: tau.
        epsilon: Softness of the assignments.
        iterations: Number of Sinkhorn iterations.
    """

    takes: frozenset[Input] = frozenset({"scores"})
    has_negatives = False
    supports_ring = True

    def __init__(self, temperature: float = 0.1, epsilon: float = 0.05, iterations: int = 3) -> None:
        super().__init__()
        check_positive(temperature=temperature, epsilon=epsilon, iterations=iterations)
        self.temperature, self.epsilon, self.iterations = temperature, epsilon, iterations

    def of_scores(self, scores: Scores) -> dict[str, Tensor]:
        """``loss``, and ``used``, the entropy of the mean assignment relative to its maximum; over all processes."""
        z, ring = scores.views, scores.ring
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        images = z.shape[1]
        assigned = z[: scores.assigning].detach()
        if scores.earlier is not None:
            assigned = torch.cat([assigned, scores.earlier.to(z.dtype)], 1)
        with full_precision(z.device):
            targets = sinkhorn(assigned, self.epsilon, self.iterations, ring)[:, :images]
            predicted = torch.log_softmax(z / self.temperature, -1)
            losses = -torch.einsum("vmp,wmp->vw", targets, predicted)
        swapped = losses.tril(-1).sum() + losses.triu(1).sum()
        mean = targets.sum((0, 1))
        if ring is not None:
            swapped, mean, images = ring.sum(swapped), ring.sum(mean), ring.total
        mean = mean / (len(targets) * images)
        used = -(mean * mean.clamp_min(1e-12).log()).sum() / torch.tensor(len(mean)).log()
        return {"loss": swapped / (len(targets) * (len(z) - 1) * images), "used": used}

    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """The parts, from scores (views, images, prototypes); the global views assign."""
        if z.dim() != 3 or z.shape[0] < 2 or z.shape[2] < 2:
            raise ValueError(f"scores must be (views >= 2, images, prototypes >= 2), not {tuple(z.shape)}")
        return self.of_scores(Scores(z, len(z) if global_views is None else global_views))

    def _of(self, z: Given, other: Tensor | None, global_views: int | None = None) -> dict[str, Tensor]:
        return self.of_scores(z) if isinstance(z, Scores) else super()._of(z, other, global_views)
