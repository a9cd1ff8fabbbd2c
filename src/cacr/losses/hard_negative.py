"""Contrastive learning with hard negatives (HN-CL), debiased."""

from torch import Tensor, logaddexp

from cacr.losses.engine.arguments import check_not_negative, check_positive, check_share
from cacr.losses.engine.debiasing import debiased
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.engine.reductions import log_mean_exp
from cacr.losses.objective import OBJECTIVES, PairObjective


@OBJECTIVES.register("hard_negative")
class HardNegativeLoss(PairObjective):
    """HN-CL: InfoNCE with larger weights for hard negatives, corrected for false ones.

    With N negatives of cosines s_j and weights q_j = softmax_j(beta s_j / tau):

        E_q = sum_j q_j e^{s_j / tau}
        E   = max((E_q - tau_plus e^{s+ / tau}) / (1 - tau_plus), e^{-1 / tau})
        loss = mean over queries and their positives of -ln(e^{s+ / tau} / (e^{s+ / tau} + N E))

    Gradients flow through the weights. Negatives are the embeddings of all other images in all views.

    Args:
        temperature: tau.
        beta: How much larger the weights of harder negatives are; 0 with tau_plus 0 is InfoNCE.
        tau_plus: Share of false negatives to correct for.
    """

    negatives: Negatives = "all"
    supports_ring = True

    def __init__(self, temperature: float = 0.5, beta: float = 1.0, tau_plus: float = 0.1) -> None:
        super().__init__()
        check_positive(temperature=temperature)
        check_not_negative(beta=beta)
        check_share(tau_plus=tau_plus)
        self.temperature, self.beta, self.tau_plus = temperature, beta, tau_plus

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, and ``positive``, the mean squared distance of positives."""
        scale = 1 / self.temperature
        positives, absent = pairs.opposed()
        expected = log_mean_exp(
            pairs.queries, pairs.negatives, self.beta * scale, scale, backend=self.backend
        )[..., None]
        logits = scale * positives
        negatives = pairs.log_count()[..., None] + debiased(expected, logits, self.tau_plus, -scale)
        losses = logaddexp(logits, negatives) - logits
        return {"loss": pairs.average(losses, absent), "positive": pairs.average(2 - 2 * positives, absent)}
