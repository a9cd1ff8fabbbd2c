"""Swapped prediction of cluster assignments (SwAV)."""

import torch
from torch import Tensor, nn

from cacr.losses.engine.arguments import check_positive
from cacr.losses.engine.full_precision import full_precision
from cacr.losses.engine.pairs import unit
from cacr.losses.objective import OBJECTIVES, Objective


@torch.no_grad()
def sinkhorn(scores: Tensor, epsilon: float, iterations: int) -> Tensor:
    """Soft assignments (..., images, prototypes) that use every prototype equally often.

    Rows and columns of exp(scores / epsilon) are normalised in turn, in log space; an image's row ends at 1.
    """
    logits = scores / epsilon
    for _ in range(iterations):
        logits = logits - torch.logsumexp(logits, -2, keepdim=True)
        logits = logits - torch.logsumexp(logits, -1, keepdim=True)
    return logits.exp()


@OBJECTIVES.register("swav")
class SwAVLoss(Objective):
    """SwAV: predict one view's cluster assignment from another view.

    Scores are cosines with learned prototypes. The assignments q_v = sinkhorn(scores_v) of the first
    ``assigning`` views are targets, without gradient, for every other view w: the mean over (v, w) and images
    of -sum_p q_vp ln softmax_p(scores_w / tau). ``prototypes`` is a parameter to train.

    Args:
        dim: The dimension of the embeddings.
        count: The number of prototypes.
        temperature: tau.
        epsilon: The softness of the assignments.
        iterations: The number of Sinkhorn iterations.
        assigning: How many views, from the first, give assignments: the global crops.
    """

    def __init__(
        self,
        dim: int = 128,
        count: int = 300,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        iterations: int = 3,
        assigning: int = 2,
    ) -> None:
        super().__init__()
        check_positive(dim=dim, count=count, temperature=temperature, epsilon=epsilon)
        check_positive(iterations=iterations, assigning=assigning)
        self.temperature, self.epsilon = temperature, epsilon
        self.iterations, self.assigning = iterations, assigning
        self.prototypes = nn.Parameter(unit(torch.randn(count, dim)))

    def of_views(self, z: Tensor) -> dict[str, Tensor]:
        """``loss``, and ``used``, the entropy of the mean assignment over its maximum."""
        if z.dim() != 3 or z.shape[0] < 2 or z.shape[2] != self.prototypes.shape[1]:
            expected = f"(views >= 2, images, {self.prototypes.shape[1]})"
            raise ValueError(f"z must have shape {expected}, not {tuple(z.shape)}")
        with full_precision(z.device):
            scores = unit(z) @ unit(self.prototypes).T
            targets = sinkhorn(scores[: self.assigning], self.epsilon, self.iterations)
            predicted = torch.log_softmax(scores / self.temperature, -1)
            losses = -torch.einsum("vmp,wmp->vw", targets, predicted) / z.shape[1]
        swapped = ~torch.eye(len(targets), len(z), dtype=torch.bool, device=z.device)
        mean = targets.mean((0, 1))
        used = -(mean * mean.clamp_min(1e-12).log()).sum() / torch.tensor(len(mean)).log()
        return {"loss": losses[swapped].mean(), "used": used}
