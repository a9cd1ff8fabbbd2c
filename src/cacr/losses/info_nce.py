"""InfoNCE: the standard contrastive objective, with optional false-negative cancellation."""

from typing import ClassVar, Literal

import torch
from torch import Tensor

from cacr.losses.engine.arguments import check_choice, check_positive
from cacr.losses.engine.false_negatives import SHARED_KEYS, cosines_at, find_false_negatives, without
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.engine.reductions import Backend, lse
from cacr.losses.objective import OBJECTIVES, PairObjective

FalseNegatives = Literal["keep", "eliminate", "attract"]


def one_vs_many(pairs: Pairs, scale: float, backend: Backend) -> Tensor:
    """The cross-entropy -ln(e^{a s+} / (e^{a s+} + sum_j e^{a s_j})) of each positive, (G, M, K)."""
    logits = scale * pairs.opposed()[0]
    negatives = lse(pairs.queries, pairs.negatives, scale, backend=backend)[..., None]
    return torch.logaddexp(logits, negatives) - logits


@OBJECTIVES.register("info_nce")
class InfoNCELoss(PairObjective):
    """InfoNCE, SimCLR's NT-Xent: distinguish each positive from all negatives.

    The mean over queries and their positives, which is over ordered pairs of views, of

        -ln(e^{s+ / tau} / (e^{s+ / tau} + sum_j e^{s_j / tau})) = logaddexp(s+ / tau, lse_{1/tau}) - s+ / tau

    Args:
        temperature: tau.
        negatives: ``all`` is SimCLR's (2M-2 at two views), ``cross`` gives M-1; see
            :func:`cacr.losses.engine.pairs.in_batch`.
        false_negatives: What to do with false negatives (FNC), the ``fnc_top`` keys most similar to any view of the
            image with a cosine above ``fnc_threshold``. ``keep``: nothing. ``eliminate``: remove them from the
            negatives. ``attract``: add them to the positive in the numerator, averaged, and keep them in the
            denominator. Needs one set of keys that all views share, negatives ``all``: frameworks whose negatives come
            from a queue or from captions refuse it. Pairs of a queue alone, ``queued(..., in_batch=False)``, work.
        fnc_top: Largest number of false negatives per image.
        fnc_threshold: Smallest cosine of a false negative.
    """

    only_with: ClassVar = dict.fromkeys(
        ("fnc_top", "fnc_threshold"), ("false_negatives", ("eliminate", "attract"))
    )

    def __init__(
        self,
        temperature: float = 0.19,
        negatives: Negatives = "all",
        false_negatives: FalseNegatives = "keep",
        fnc_top: int = 1,
        fnc_threshold: float = 0.7,
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature, fnc_top=fnc_top)
        check_choice(Negatives, negatives=negatives)
        check_choice(FalseNegatives, false_negatives=false_negatives)
        if false_negatives != "keep" and negatives != "all":
            raise ValueError(
                f"false_negatives must be 'keep' with negatives {negatives!r}; others need 'all'"
            )
        self.temperature, self.negatives = temperature, negatives
        self.supports_ring = false_negatives == "keep"
        self.fixed_negatives = self.needs_shared_keys = "" if false_negatives == "keep" else SHARED_KEYS
        self.false_negatives, self.fnc_top, self.fnc_threshold = false_negatives, fnc_top, fnc_threshold

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, and ``positive``, the mean squared distance of positives."""
        scale = 1 / self.temperature
        positives, absent = pairs.opposed()
        if self.false_negatives == "keep":
            losses = one_vs_many(pairs, scale, self.backend)
        else:
            places = find_false_negatives(pairs, self.fnc_top, self.fnc_threshold)
            if self.false_negatives == "eliminate":
                losses = one_vs_many(without(pairs, places), scale, self.backend)
            else:
                cosines, number = cosines_at(pairs, places)
                numerator = (positives + cosines) / (1 + number)
                losses = one_vs_many(pairs, scale, self.backend) + scale * (positives - numerator)
        return {"loss": pairs.average(losses, absent), "positive": pairs.average(2 - 2 * positives, absent)}
