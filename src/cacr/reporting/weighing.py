"""The weights of the paper: how strongly a query is pulled by positives and pushed by negatives."""

from dataclasses import dataclass

from torch import Tensor

from cacr.losses.measures import negative_weights, positive_weights


@dataclass(frozen=True)
class Weighted:
    """A query with the weights of its positives and negatives.

    Attributes:
        query: number of its image in the batch.
        positives: (K,) pi+ of its other views.
        negatives: (images,) pi- of all images, 0 for its own.
    """

    query: int
    positives: Tensor
    negatives: Tensor

    def strongest(self, count: int) -> list[int]:
        """Numbers of the other views with the highest pi+ among the positives, the highest first."""
        order: list[int] = self.positives.argsort(descending=True).tolist()
        return order[:count]

    def extremes(self, count: int) -> tuple[list[int], list[int]]:
        """Numbers of the images with the highest pi-, and of others with the lowest, the lowest last."""
        order = [image for image in self.negatives.argsort(descending=True).tolist() if image != self.query]
        return order[:count], order[count:][-count:] if count else []


@dataclass(frozen=True)
class BatchWeights:
    """The weights of a whole batch; queries are the first views, negatives the first views of the other images.

    Attributes:
        pi_pos: (images, K) for the other views of each query.
        pi_neg: (images, images) for all images of each query.
    """

    pi_pos: Tensor
    pi_neg: Tensor

    def of(self, query: int) -> Weighted:
        """The weights of one query."""
        return Weighted(query, self.pi_pos[query], self.pi_neg[query])


def weigh(z: Tensor, t_pos: float, t_neg: float) -> BatchWeights:
    """The weights in a batch.

    Args:
        z: (views, images, dim) of one batch.
        t_pos: t+ of pi+; 0 for equal weights, negative for flipped ones.
        t_neg: t- of pi-, likewise.
    """
    return BatchWeights(positive_weights(z, t_pos)[0], negative_weights(z, t_neg)[0])
