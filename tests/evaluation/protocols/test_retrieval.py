"""Search as a measure, against scikit-learn's average precision and literal recall."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from cacr.data import ArraySource
from cacr.encoders import Encoder, EncoderInfo
from cacr.errors import UserError
from cacr.evaluation.data.labelled import LabelledData
from cacr.evaluation.data.task import LabelledFeatures, Task
from cacr.evaluation.protocols import retrieval as module
from cacr.evaluation.protocols.retrieval import RetrievalSettings, rank_gallery, retrieval

pytestmark = pytest.mark.trains


def _literal(queries: np.ndarray, labels: np.ndarray, gallery: np.ndarray, classes: np.ndarray, k: int):
    """Average precision by scikit-learn and recall@k by sorting, query by query."""
    precisions, recalls = [], []
    for query, label in zip(queries, labels, strict=True):
        cosine = gallery @ query / np.linalg.norm(gallery, axis=1) / np.linalg.norm(query)
        precisions.append(average_precision_score(classes == label, cosine))
        recalls.append(label in classes[np.argsort(-cosine, kind="stable")[:k]])
    return precisions, recalls


@pytest.mark.parametrize("block", [1, 100, 4_000_000])
def test_ranking_is_that_of_scikit_learn(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    rng = np.random.default_rng(0)
    queries, gallery = rng.normal(size=(23, 5)), rng.normal(size=(60, 5))
    labels, classes = rng.integers(0, 4, 23), rng.integers(0, 4, 60)
    steps: list[tuple[int, int]] = []
    found = rank_gallery(
        *(torch.from_numpy(values) for values in (queries, labels, gallery, classes)),
        ks=(1, 7),
        progress=lambda *now: steps.append(now),
    )
    for k in (1, 7):
        precisions, recalls = _literal(queries, labels, gallery, classes, k)
        np.testing.assert_allclose(found.average_precision.numpy(), precisions, rtol=1e-12)
        assert found.recall[k].tolist() == recalls
    assert found.without_match == 0 and steps[-1] == (23, 23)


def test_equal_similarities_count_as_one_step() -> None:
    """A collapsed encoder gets the share of the class, in whatever order the gallery is."""
    rng = np.random.default_rng(0)
    directions = np.eye(3)[rng.integers(0, 3, 40)]  # cosines are 0 or 1: nearly all are equal
    classes = np.sort(rng.integers(0, 3, 40))
    queries, labels = np.eye(3), np.array([0, 1, 2])
    found = rank_gallery(
        *(torch.from_numpy(values) for values in (queries, labels, directions, classes)), ks=(1,)
    )
    np.testing.assert_allclose(
        found.average_precision.numpy(), _literal(queries, labels, directions, classes, 1)[0]
    )
    same = torch.ones(4, 2)
    found = rank_gallery(same, torch.zeros(4), same, torch.tensor([0, 1, 1, 1]), ks=(1,))
    assert found.average_precision.tolist() == [0.25] * 4


def _task(train: LabelledFeatures, test: LabelledFeatures) -> Task:
    empty = ArraySource("none", torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    task = Task(
        Encoder(torch.nn.Flatten(), EncoderInfo("pixels", 8, 192)), LabelledData(empty, empty, "by hand", 3)
    )
    task.__dict__.update(train=train, test=test)  # in place of what the encoder would give
    return task


def test_the_protocol_averages_over_queries_that_have_a_match() -> None:
    rng = np.random.default_rng(1)
    gallery, queries = rng.normal(size=(30, 4)), rng.normal(size=(12, 4))
    classes, labels = rng.integers(0, 2, 30), np.array([0, 1, 2] * 4)  # nothing of class 2 in the gallery
    task = _task(
        LabelledFeatures(torch.from_numpy(gallery), torch.from_numpy(classes)),
        LabelledFeatures(torch.from_numpy(queries), torch.from_numpy(labels)),
    )
    score = retrieval(task, RetrievalSettings(ks=(3,)))
    seen = labels < 2
    precisions, recalls = _literal(queries[seen], labels[seen], gallery, classes, 3)
    assert score.metric == "mAP"
    assert score.value == pytest.approx(np.mean(precisions), rel=1e-12)
    assert score.also == {"recall@3": pytest.approx(np.mean(recalls))}
    few = {"reader": "raw", "reader_dim": 4, "reader_images": 30}  # too few images for another
    assert score.details == {"queries": 8, "queries_without_match": 4, **few}

    task = _task(task.train, LabelledFeatures(task.test.values, torch.full((12,), 2)))
    with pytest.raises(UserError, match="no test image has a training image of its class"):
        retrieval(task, RetrievalSettings())
