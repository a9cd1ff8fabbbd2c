"""Contrastive attraction and contrastive repulsion: the paper's objective with all of its variants."""

from typing import ClassVar, Literal

from torch import Tensor
from torch.nn.functional import relu

from cacr.losses.engine.arguments import check_choice, check_not_negative, check_positive, check_share
from cacr.losses.engine.debiasing import debiased
from cacr.losses.engine.learned import LearnedScale
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.engine.reductions import log_mean_exp, lse_of, mean, mean_of
from cacr.losses.engine.spread import FollowedSpread
from cacr.losses.objective import OBJECTIVES, Given, PairObjective

Cost = Literal["euclidean", "inner", "rbf"]
Weights = Literal["softmax", "uniform", "flipped"]
Schedule = Literal["constant", "spread", "learned"]
Anchor = Literal["query", "key"]

LEAST, MOST = 0.5, 50.0
"""Bounds of a learned t-: temperatures of 1 and of 0.01 on cosines."""

_SIGN = {"softmax": 1.0, "uniform": 0.0, "flipped": -1.0}


@OBJECTIVES.register("cacr")
class CACRLoss(PairObjective):
    """CACR: attract far positives most strongly and repel near negatives most strongly.

    With d(a, b) = ||a - b||^2 = 2 - 2 a.b between unit vectors and a cost c, equal to d by default:

        pi+_ik = softmax_k(t+ d_ik)       L_CA =  mean_i sum_k pi+_ik c_ik      K positives
        pi-_ij = softmax_j(-t- d_ij)      L_CR = -mean_i sum_j pi-_ij c_ij      M-1 negatives
        loss = attraction L_CA + repulsion L_CR

    Args:
        t_pos: t+, how much more strongly far positives are pulled. No effect with one positive.
        t_neg: t-, how much more strongly near negatives are pushed; equals a temperature of 1 / (2 t-) on cosines.
        negatives: In-batch negatives, see :func:`cacr.losses.engine.pairs.in_batch`.
        cost: ``euclidean``: c = d. ``inner``: c = -a.b. ``rbf``: the Euclidean L_CA, and
            L_CR = ln mean_i sum_j pi-_ij exp(-rbf_t d_ij). The weights always use d.
        pos_weights: pi+ as above (``softmax``), 1/K (``uniform``), or with -t+ instead of t+ (``flipped``).
        neg_weights: The same for pi-. Both uniform is the paper's UAUR.
        pos_grad: Whether gradients flow through pi+.
        neg_grad: Whether gradients flow through pi-.
        queue_grad: Whether gradients flow through the part of pi- from queue keys.
        attraction: Factor of L_CA.
        repulsion: Factor of L_CR.
        margin: m of the hinge, mean_i max(0, attraction L_CA,i + repulsion L_CR,i + m). None: no hinge.
        rbf_t: Precision t of the ``rbf`` cost.
        tau_plus: Share of false negatives to correct for: -E_pi-[c] becomes
            (-E_pi-[c] + tau_plus E_p+[c]) / (1 - tau_plus), p+ uniform over the positives.
        pi_anchor: ``query``: pi+ is a softmax over the positives of a query, as in the paper. ``key``: over the
            queries of a key, sum_b pi+_b c(q_b, k), averaged over keys, as in the released code; this matters if
            there are few keys and many queries, as with local crops.
        local_keys: Local crops are also keys, which costs more; by default they are only queries.
        t_neg_schedule: ``constant``, or ``spread``: t- starts near 0 and grows to ``t_neg`` while repulsion exceeds
            attraction, see :class:`cacr.losses.engine.spread.FollowedSpread`. It changes after each batch in training
            mode. ``learned``: t- is a parameter that starts at ``t_neg``, kept in [:data:`LEAST`, :data:`MOST`]; the
            repulsion always grows with t-, so its gradient never raises t-. Both need ``softmax`` weights of negatives
            and a cost other than ``rbf``.

    Example:
        >>> z = torch.randn(5, 128, 64)     # five views of 128 images
        >>> CACRLoss(t_neg=0.9)(z).shape
        torch.Size([])
    """

    supports_ring = True
    only_with: ClassVar = {"rbf_t": ("cost", ("rbf",))}

    def __init__(
        self,
        t_pos: float = 1.0,
        t_neg: float = 2.0,
        negatives: Negatives = "same",
        cost: Cost = "euclidean",
        pos_weights: Weights = "softmax",
        neg_weights: Weights = "softmax",
        pos_grad: bool = True,
        neg_grad: bool = True,
        queue_grad: bool = True,
        attraction: float = 1.0,
        repulsion: float = 1.0,
        margin: float | None = None,
        rbf_t: float = 2.0,
        tau_plus: float = 0.0,
        t_neg_schedule: Schedule = "constant",
        pi_anchor: Anchor = "query",
        local_keys: bool = False,
    ) -> None:
        super().__init__()
        check_positive(t_pos=t_pos, t_neg=t_neg, rbf_t=rbf_t)
        check_not_negative(attraction=attraction, repulsion=repulsion)
        check_share(tau_plus=tau_plus)
        check_choice(Negatives, negatives=negatives)
        check_choice(Cost, cost=cost)
        check_choice(Weights, pos_weights=pos_weights, neg_weights=neg_weights)
        check_choice(Schedule, t_neg_schedule=t_neg_schedule)
        check_choice(Anchor, pi_anchor=pi_anchor)
        if margin is not None and pi_anchor == "key":
            raise ValueError("margin must be None with pi_anchor 'key': a hinge needs a loss per query")
        if margin is not None and cost == "rbf":
            raise ValueError("margin must be None with cost 'rbf', whose repulsion is not a sum over queries")
        if t_neg_schedule != "constant" and (cost == "rbf" or neg_weights != "softmax"):
            raise ValueError(
                f"t_neg_schedule must be 'constant' with cost {cost!r} and neg_weights {neg_weights!r}: "
                f"{t_neg_schedule!r} needs neg_weights 'softmax' and cost 'euclidean' or 'inner'"
            )
        self.t_pos, self.t_neg, self.rbf_t, self.tau_plus = t_pos, t_neg, rbf_t, tau_plus
        self.negatives, self.cost = negatives, cost
        self.pos_weights, self.neg_weights = pos_weights, neg_weights
        self.pos_grad, self.neg_grad, self.queue_grad = pos_grad, neg_grad, queue_grad
        self.attraction, self.repulsion, self.margin = attraction, repulsion, margin
        self.pi_anchor, self.local_keys = pi_anchor, local_keys
        self.spread = FollowedSpread(t_neg) if t_neg_schedule == "spread" else None
        self.learned = LearnedScale(t_neg, LEAST, MOST) if t_neg_schedule == "learned" else None

    def begin_step(self, step: int, total: int) -> None:
        """Clip a learned t- to its bounds after the last step."""
        if self.learned is not None:
            self.learned.begin_step()

    def parts(
        self, z: Given, other: Tensor | None = None, *, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """The parts of :meth:`of`, and ``t_neg`` if it changes; in training mode this call changes it."""
        parts = super().parts(z, other, global_views=global_views)
        if self.learned is not None:
            parts["t_neg"] = self.learned.now().detach()
        if self.spread is None:
            return parts
        parts["t_neg"] = self.spread.t_now.clone()
        if self.training:
            self.spread.follow(*self._distances(parts))
        return parts

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, ``attraction`` (L_CA) and ``repulsion`` (L_CR), the latter two before their factors."""
        ca = self._attraction(pairs)
        cr = self._rbf_repulsion(pairs) if self.cost == "rbf" else self._repulsion(pairs)
        repulsion = cr.mean() if self.cost == "rbf" else pairs.average(cr)
        parts = {"attraction": pairs.average(ca), "repulsion": repulsion}
        if self.margin is None:
            loss = self.attraction * parts["attraction"] + self.repulsion * parts["repulsion"]
        else:
            queries = self.attraction * pairs.of_owner(ca) + self.repulsion * cr
            loss = pairs.average(relu(queries + self.margin))
        return {"loss": loss, **parts}

    def _distances(self, parts: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The weighted mean distances of positives and of negatives times their factors, for any cost."""
        ca, cr = parts["attraction"], parts["repulsion"]
        if self.cost == "inner":  # -a.b = (d - 2) / 2
            ca, cr = 2 * ca + 2, 2 * cr - 2
        return self.attraction * ca, -self.repulsion * cr

    def _attraction(self, pairs: Pairs) -> Tensor:
        """sum_k pi+_k c_k per query, (Q, M); per key, (W, M), if keys are the anchors."""
        scale = -2 * self.t_pos * _SIGN[self.pos_weights]
        cosines, absent = (pairs.positives, pairs.absent) if self.pi_anchor == "query" else pairs.by_key()
        return self._expected_cost(mean_of(cosines, scale, absent, weight_grad=self.pos_grad))

    def _repulsion(self, pairs: Pairs) -> Tensor:
        """-sum_j pi-_j c_j per query, (G, M)."""
        # The mean at scale r a is that of the vectors r q at scale a, divided by r: so r may be a tensor.
        moving = self.spread or self.learned
        share = None if moving is None else moving.share()
        cosine = mean(
            pairs.queries if share is None else share * pairs.queries,
            pairs.negatives,
            2 * self.t_neg * _SIGN[self.neg_weights],
            weight_grad=self.neg_grad,
            queue_grad=self.queue_grad,
            backend=self.backend,
        )
        if share is not None:
            cosine = cosine / share
        cr = -self._expected_cost(cosine)
        if self.tau_plus:
            positives = mean_of(pairs.positives, 0.0, pairs.absent)
            correction = pairs.of_owner(self._expected_cost(positives))
            cr = (cr + self.tau_plus * correction) / (1 - self.tau_plus)
        return cr

    def _rbf_repulsion(self, pairs: Pairs) -> Tensor:
        """The log of the mean over queries of sum_j pi-_j exp(-t d_j), (G,): the log is outside the mean."""
        t = self.rbf_t
        kernel = log_mean_exp(
            pairs.queries,
            pairs.negatives,
            2 * self.t_neg * _SIGN[self.neg_weights],
            2 * t,
            weight_grad=self.neg_grad,
            queue_grad=self.queue_grad,
            backend=self.backend,
        )
        if self.tau_plus:
            total, count = (lse_of(pairs.positives, a, pairs.absent) for a in (2 * t, 0.0))
            kernel = debiased(kernel, pairs.of_owner(total - count), self.tau_plus, -2 * t)
        return pairs.log_mean_exp(kernel) - 2 * t

    def _expected_cost(self, cosine: Tensor) -> Tensor:
        """The mean cost from the mean cosine, in which costs are linear; rounding errors cannot make d negative."""
        return -cosine if self.cost == "inner" else (2 - 2 * cosine).clamp_min(0)
