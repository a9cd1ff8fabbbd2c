"""Equal views and Gaussian embeddings (LeJEPA with SIGReg)."""

import torch
from torch import Tensor

from cacr.losses.engine.arguments import check_positive, check_share
from cacr.losses.engine.full_precision import full_precision
from cacr.losses.objective import OBJECTIVES, Objective

POINTS, FURTHEST = 17, 5.0
"""Points of the trapezoid rule over t, from -5 to 5, as in the paper's listing; the authors' code uses 33, -3 to 3."""

APART = 2_654_435_769
"""2^32 / golden ratio: steps of runs with different seeds lie far apart in the 32 bits that torch's generator uses."""


def sigreg(z: Tensor, directions: Tensor) -> Tensor:
    """Distance of embeddings from a standard normal along some directions: SIGReg's Epps-Pulley statistic, a scalar.

    The mean over views and directions a of  N int |mean_i e^{i t a.z_i} - e^{-t^2/2}|^2 e^{-t^2/2} dt.

    Args:
        z: (views, N images, dim).
        directions: (dim, number), of unit length.
    """
    # The integrand is even in t: half of the points are enough, and all except t = 0 count twice.
    t = torch.linspace(0, FURTHEST, POINTS // 2 + 1, dtype=z.dtype, device=z.device)
    step = 2 * FURTHEST / (POINTS - 1)
    weights = torch.full_like(t, 2 * step)
    weights[0] = weights[-1] = step
    normal = (-t.square() / 2).exp()
    with full_precision(z.device):
        along = z @ directions
    error = torch.zeros_like(along[:, 0])
    for point, target, weight in zip(t, normal, weights * normal, strict=True):  # not all angles at once
        angle = point * along
        error = error + weight * ((angle.cos().mean(1) - target).square() + angle.sin().mean(1).square())
    return z.shape[1] * error.mean()


@OBJECTIVES.register("lejepa")
class LeJEPALoss(Objective):
    """LeJEPA: bring the views of an image together while SIGReg keeps all embeddings normally distributed.

        loss = (1 - share) mean over views, images and dimensions of (z_v - c)^2 + share SIGReg(z)

    with c the mean of the image's global views, and :func:`sigreg` over random directions that change at every step
    and are the same in all processes: in your own training loop, call ``begin_step(step, total)`` before each step, and
    set ``loss.seed`` for other directions.
    Embeddings are not normalised. The paper's equation sums the squares over dimensions; the authors' code
    (``MINIMAL.md`` of rbalestr-lab/lejepa) takes their mean, as here.

    Args:
        share: Share of SIGReg in the loss.
        directions: Number of random directions.
    """

    has_negatives = False

    def __init__(self, share: float = 0.05, directions: int = 1024) -> None:
        super().__init__()
        check_share(share=share)
        check_positive(directions=directions)
        self.share, self.directions = share, directions
        self._step = 0

    def begin_step(self, step: int, total: int) -> None:
        """Draw the directions of a step; they depend only on it and the seed, so that a resumed run draws the same."""
        self._step = step

    def of_views(self, z: Tensor, global_views: int | None = None) -> dict[str, Tensor]:
        """``loss``, ``invariance`` and ``sigreg``, the latter two before their shares."""
        if z.dim() != 3 or z.shape[0] < 2 or z.shape[1] < 2:
            raise ValueError(
                f"z must be (views, images, dim) with 2 or more of the first two, not {tuple(z.shape)}"
            )
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        invariance = (z - z[:global_views].mean(0)).square().mean()
        spread = sigreg(z, self._draw(z))
        return {
            "loss": (1 - self.share) * invariance + self.share * spread,
            "invariance": invariance,
            "sigreg": spread,
        }

    def _draw(self, z: Tensor) -> Tensor:
        """Random unit vectors (dim, directions), the same in all processes."""
        draw = torch.Generator().manual_seed((self.seed * APART + self._step) % 2**32)
        vectors = torch.randn(z.shape[2], self.directions, generator=draw, device="cpu")
        vectors = vectors.to(z) if z.device.type != "meta" else torch.empty_like(vectors, device="meta")
        return vectors / vectors.square().sum(0).sqrt()
