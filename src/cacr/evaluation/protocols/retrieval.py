"""Image search as a metric: whether the nearest images show the same class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import normalize

from cacr.data.prepare import Progress
from cacr.encoders import ReaderKind
from cacr.errors import UserError
from cacr.evaluation.data.task import Task
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, Score
from cacr.features.reader import components_field, described, reader_field
from cacr.randomness import generator

BLOCK = 4_000_000
"""Similarities sorted per batch: about 100 MB with their indices, for any number of images."""


class RetrievalSettings(ProtocolSettings):
    """Search of the training images for the class of a test image."""

    own_measure: ClassVar[bool] = True
    quick: ClassVar[bool] = True

    ks: tuple[Annotated[int, Field(ge=1, le=10**9)], ...] = Field(
        (1, 5, 10), description="numbers of nearest images, for recall@k"
    )
    reader: ReaderKind = reader_field()
    reader_components: int = components_field()


@PROTOCOLS.register("retrieval")
def retrieval(task: Task, settings: RetrievalSettings) -> Score:
    """Test images search the training images by cosine: mean average precision, recall@k."""
    train, test = task.train, task.test
    reader = task.reader(settings.reader, settings.reader_components)
    # Equal similarities keep the order of the gallery. It is shuffled, so that an order by class has no effect.
    order = torch.randperm(len(train), generator=generator("gallery", task.seed))
    found = rank_gallery(
        task.read(test, reader),
        test.labels,
        task.read(train, reader)[order],
        train.labels[order],
        ks=settings.ks,
        progress=task.progress,
    )
    if not len(found.average_precision):
        raise UserError(
            "no test image has a training image of its class, so nothing can be found: give data whose "
            "training and test parts have the same classes"
        )
    recalls = {f"recall@{k}": value.double().mean().item() for k, value in found.recall.items()}
    return Score(
        found.average_precision.mean().item(),
        metric="mAP",
        also=recalls,
        details={
            "queries": len(found.average_precision),
            "queries_without_match": found.without_match,
            **described(reader),
        },
    )


@dataclass(frozen=True)
class Ranking:
    """Search results for each query with at least one image of its class in the gallery.

    Attributes:
        average_precision: (queries,) float64.
        recall: k -> (queries,) bool: an image of the class is among the k nearest.
        without_match: Number of queries left out because the gallery has no image of their class.
    """

    average_precision: Tensor
    recall: dict[int, Tensor]
    without_match: int


def rank_gallery(
    queries: Tensor,
    query_labels: Tensor,
    gallery: Tensor,
    gallery_labels: Tensor,
    *,
    ks: Sequence[int],
    progress: Progress | None = None,
) -> Ranking:
    """Rank a gallery for every query by cosine similarity.

    With r_1 >= r_2 >= ... the ranked similarities, y_i whether image i has the query's class and P(i) the share of
    the class among the first i: AP = sum_i y_i P(i) / sum_i y_i. Images with equal similarity count as one step of the
    ranking, as in scikit-learn's ``average_precision_score``, so that their order has no effect.

    Args:
        queries: (m, d) features.
        query_labels: (m,) their classes.
        gallery: (n, d) features.
        gallery_labels: (n,) their classes.
        ks: Values of k for recall@k.
        progress: Called with the number of queries done and the total.
    """
    possible = torch.isin(query_labels, gallery_labels)
    without_match = int((~possible).sum())
    queries, query_labels = normalize(queries[possible], dim=1), query_labels[possible]
    keys = normalize(gallery, dim=1)
    rows = max(1, BLOCK // len(keys))
    precisions: list[Tensor] = []
    hits: dict[int, list[Tensor]] = {k: [] for k in ks}
    for start in range(0, len(queries), rows):
        block = queries[start : start + rows] @ keys.T
        similarity, order = block.sort(dim=1, descending=True, stable=True)
        relevant = gallery_labels[order] == query_labels[start : start + rows, None]
        precisions.append(_average_precision(similarity, relevant))
        for k, found in hits.items():
            found.append(relevant[:, :k].any(dim=1))
        if progress is not None:
            progress(min(start + rows, len(queries)), len(queries))
    none = queries.new_zeros(0)
    return Ranking(
        torch.cat(precisions) if precisions else none.double(),
        {k: torch.cat(found) if found else none.bool() for k, found in hits.items()},
        without_match,
    )


def _average_precision(similarity: Tensor, relevant: Tensor) -> Tensor:
    """(m,) float64 from similarities (m, n), largest first, and whether each image is relevant."""
    count = similarity.shape[1]
    place = torch.arange(count, device=similarity.device)
    last = torch.ones_like(relevant)
    last[:, :-1] = similarity[:, :-1] != similarity[:, 1:]
    # The end of the group of equal similarities that each image belongs to.
    end = torch.where(last, place, count - 1).flip(1).cummin(dim=1).values.flip(1)
    precision = relevant.cumsum(dim=1).double() / (place + 1)
    return (precision.gather(1, end) * relevant).sum(dim=1) / relevant.sum(dim=1)
