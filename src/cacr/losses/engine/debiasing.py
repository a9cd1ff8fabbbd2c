"""Correct for false negatives among the negatives, in log space."""

import math

import torch
from torch import Tensor


def debiased(negatives: Tensor, positives: Tensor, tau_plus: float, least: Tensor | float) -> Tensor:
    """The corrected log mean, ln max((e^n - tau_plus e^p) / (1 - tau_plus), e^least).

    Negatives drawn from all images contain a share ``tau_plus`` of positives, whose contribution is subtracted.

    Args:
        negatives: n, the log of a mean over negatives.
        positives: p, the log of the same mean over positives.
        tau_plus: In [0, 1).
        least: Log of the smallest value that the mean can take.
    """
    if tau_plus == 0:
        return negatives
    share = positives - negatives + math.log(tau_plus)  # ln of the subtracted part, relative to e^n
    below = -torch.finfo(share.dtype).eps
    rest = torch.log(-torch.expm1(share.clamp(max=below)))
    corrected = negatives + rest - math.log1p(-tau_plus)
    least = torch.as_tensor(least, dtype=corrected.dtype, device=corrected.device)
    return torch.where(share < below, torch.maximum(corrected, least), least)
