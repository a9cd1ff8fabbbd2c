"""CLIP's objective for images and texts."""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from cacr.losses.engine.arguments import check_positive
from cacr.losses.engine.learned import put_back, within
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.info_nce import one_vs_many
from cacr.losses.objective import OBJECTIVES, PairObjective


@OBJECTIVES.register("clip")
class CLIPLoss(PairObjective):
    """CLIP: symmetric InfoNCE between images and texts with a learned temperature.

    The mean of image-to-text and text-to-image cross-entropy of logits a q.k, a = min(exp(log_scale), most). Call
    ``loss(images, texts)`` with two (images, dim) tensors; ``log_scale`` is a parameter to train.

    Args:
        temperature: Initial temperature 1 / a.
        most: Largest a.
        learned: Whether a is trained.
    """

    negatives: Negatives = "cross"
    needs_captions = True
    supports_ring = True

    def __init__(self, temperature: float = 0.07, most: float = 100.0, learned: bool = True) -> None:
        super().__init__()
        check_positive(temperature=temperature, most=most)
        self.most = most
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)), requires_grad=learned)

    def begin_step(self, step: int, total: int) -> None:
        """Clip the scale to ``most`` after the last step."""
        put_back(self.log_scale, 0.0, self.most)

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, and ``scale``, the factor a of the cosines."""
        scale = within(self.log_scale, 0.0, self.most)
        # lse_a(q) = lse_1(a q): scaling the queries gives a its gradient.
        scaled = replace(pairs, queries=scale * pairs.queries, positives=scale * pairs.positives)
        _, absent = pairs.opposed()
        loss = pairs.average(one_vs_many(scaled, 1.0, self.backend), absent)
        return {"loss": loss, "scale": scale.detach()}
