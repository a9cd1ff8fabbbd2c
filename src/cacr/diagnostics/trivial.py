"""The loss if all embeddings are one point, so that nothing has been learned."""

import torch

from cacr.frameworks import Framework
from cacr.losses import PairObjective
from cacr.losses.engine.pairs import queued


@torch.no_grad()
def trivial_loss(method: Framework, *, images: int, views: int) -> float | None:
    """The loss of an encoder that maps all images to one point, if the objective is made of pairs.

    Args:
        method: has the objective and the number of negatives.
        images: number of images of a global batch.
        views: number of views per image.
    """
    objective = method.objective
    if not isinstance(objective, PairObjective) or objective.fixed_negatives:  # not for pairs of a queue
        return None
    device = next(method.parameters()).device
    point = torch.ones(max(2, views), 2, 1, device=device)  # with a single view, the caption is the other one
    # the second image is one negative, the queue has all others
    queue = point.new_ones(max(1, method.negatives(images, views).number - 1), 1)
    return round(float(objective.of(queued(point, point, queue))["loss"]), 6)
