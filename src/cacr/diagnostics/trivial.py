"""The loss if all embeddings are one point, so that nothing has been learned."""

import torch

from cacr.encoders import keeps_apart
from cacr.frameworks import Framework
from cacr.frameworks.prototypes import Prototypes
from cacr.losses import PairObjective, Scores
from cacr.losses.engine.pairs import queued


def can_shrink(method: Framework) -> bool:
    """Whether embeddings can move together: the head does not keep them apart."""
    return not keeps_apart(method.head)


@torch.no_grad()
def trivial_loss(method: Framework, *, images: int, views: int) -> float | None:
    """The loss of an encoder that maps all images to one point, if the objective has negatives or assignments.

    For assignments it is the smallest such loss, that of a point with equal scores for all prototypes. With a queue
    it is not known: the other prototypes can be those of earlier embeddings.

    Args:
        method: has the objective and the number of negatives.
        images: number of images of a global batch.
        views: number of views per image.
    """
    objective = method.objective
    if isinstance(method, Prototypes):
        if method.queue.shape[1]:
            return None
        equal = torch.zeros(max(2, views), 2, len(method.prototypes))
        return round(float(objective.parts(Scores(equal, 2))["loss"]), 6)
    if not isinstance(objective, PairObjective) or not objective.has_negatives or objective.fixed_negatives:
        return None
    device = next(method.parameters()).device
    point = torch.ones(max(2, views), 2, 1, device=device)  # with a single view, the caption is the other one
    # the second image is one negative, the queue has all others
    queue = point.new_ones(max(1, method.negatives(images, views).number - 1), 1)
    return round(float(objective.of(queued(point, point, queue))["loss"]), 6)
