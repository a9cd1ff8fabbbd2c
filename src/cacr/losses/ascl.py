"""Adaptive soft contrastive learning (ASCL): negatives similar to the positive are partly positives."""

import torch
from torch import Tensor

from cacr.losses.engine.arguments import check_not_negative, check_positive
from cacr.losses.engine.pairs import Negatives, Pairs
from cacr.losses.engine.reductions import lse
from cacr.losses.engine.soft_labels import SoftLabels, labelled_sum
from cacr.losses.objective import OBJECTIVES, PairObjective

NO_SHARED_KEYS = "soft labels need keys of positives, and negatives that all views share: 'all', or a queue"


@OBJECTIVES.register("ascl")
class ASCLLoss(PairObjective):
    """ASCL: InfoNCE with soft labels, which are shared between the positive and negatives near its key.

    For a positive key k, N negatives k_j and the distribution p = softmax_j(k.k_j / label_temperature):

        c = 1 - H(p) / ln N                             how sure p is
        label = 1 for k, min(1, neighbours c p_j) for k_j, then divided by their sum; without gradient
        loss = mean over queries and positives of -sum_j label_j ln softmax_j(q.k_j / temperature)

    Without neighbours this is MoCo v2. Only the sum of the labels of a key and their mean key are needed, which are
    computed block by block: the matrix of queries and keys is never in memory. Where keys have gradients, so do those
    that are neighbours.

    Args:
        temperature: temperature of the loss.
        label_temperature: temperature of the labels; smaller values make p more certain.
        neighbours: Number of neighbours of a key: 1 on ImageNet, 5 on CIFAR in the paper.
    """

    negatives: Negatives = "all"
    needs_shared_keys = NO_SHARED_KEYS

    def __init__(
        self, temperature: float = 0.1, label_temperature: float = 0.05, neighbours: float = 1.0
    ) -> None:
        super().__init__()
        check_positive(temperature=temperature, label_temperature=label_temperature)
        check_not_negative(neighbours=neighbours)
        self.temperature, self.label_temperature, self.neighbours = temperature, label_temperature, neighbours

    def of(self, pairs: Pairs) -> dict[str, Tensor]:
        """``loss``, and ``own``, the mean label of the positive itself."""
        keys = next((keys for keys in pairs.negatives if keys.vectors.dim() == 2), None)
        if keys is None or pairs.keys is None or pairs.partner is not None:
            raise ValueError(NO_SHARED_KEYS)
        own, others = labelled_sum(pairs.keys, keys, SoftLabels(self.label_temperature, self.neighbours))
        scale = 1 / self.temperature
        logits = scale * pairs.positives
        rest = lse(pairs.queries, pairs.negatives, scale, backend=self.backend)[..., None]
        labelled = scale * pairs.cosines_with(own[..., None] * pairs.keys + others)
        losses = torch.logaddexp(logits, rest) - labelled
        return {"loss": pairs.average(losses, pairs.absent), "own": own.mean()}
