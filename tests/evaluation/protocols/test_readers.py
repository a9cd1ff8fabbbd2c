"""Protocols that compare features by cosine read them first, alike for every contestant and without labels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from cacr.data import ArraySource
from cacr.encoders import Encoder, EncoderInfo, Reader
from cacr.evaluation import PROTOCOLS
from cacr.evaluation.data.labelled import LabelledData
from cacr.evaluation.data.task import LabelledFeatures, Task
from cacr.evaluation.protocols.knn import knn_scores
from cacr.evaluation.registry import Score, settings_of
from cacr.features.machine import Machine

READ = ("knn", "cluster", "retrieval")
"""Protocols of our own; those of papers keep the features that the papers took."""

CLASSES, DIM = 3, 6


def _features(count: int, seed: int) -> LabelledFeatures:
    """Classes differ in small directions; a common part and one large direction say nothing."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    x = np.concatenate([40 * rng.normal(size=(count, 1)), 0.1 * rng.normal(size=(count, DIM - 1))], axis=1)
    x[:, 1 : 1 + CLASSES] += 0.4 * np.eye(CLASSES)[labels]
    return LabelledFeatures(torch.from_numpy(x + 30).float(), torch.from_numpy(labels))


def _task(encoder_reader: Reader | None = None, *, train: LabelledFeatures | None = None) -> Task:
    empty = ArraySource("none", torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    encoder = Encoder(torch.nn.Flatten(), EncoderInfo("pixels", 8, 192))
    encoder.reader = encoder_reader
    task = Task(encoder, LabelledData(empty, empty, "by hand", CLASSES))
    task.__dict__.update(train=train or _features(300, 0), test=_features(90, 1))
    return task


def _score(protocol: str, task: Task | None = None, **settings: Any) -> Score:
    return PROTOCOLS[protocol](task or _task(), settings_of(protocol)(**settings))


@pytest.mark.parametrize("protocol", READ)
def test_reading_brings_out_what_raw_features_hide(protocol: str) -> None:
    raw, white = _score(protocol, reader="raw"), _score(protocol, reader="white")
    assert white.value > 0.65 and raw.value < white.value - 0.2
    assert (raw.details["reader"], white.details["reader"]) == ("raw", "white")
    assert (white.details["reader_dim"], white.details["reader_images"]) == (DIM, 300)
    assert _score(protocol, reader="white", reader_components=2).details["reader_dim"] == 2


def test_knn_votes_by_whitened_features_of_scikit_learn() -> None:
    task = _task()
    pca = PCA(4, whiten=True).fit(task.train.values.double().numpy())
    train, test = (
        torch.from_numpy(pca.transform(x.values.double().numpy())) for x in (task.train, task.test)
    )
    scores = knn_scores(train, task.train.labels, test, classes=CLASSES, k=20, temperature=0.07)
    expected = float((scores.argmax(dim=1) == task.test.labels).double().mean())
    assert _score("knn", reader="white", reader_components=4).value == pytest.approx(expected)


@pytest.mark.parametrize("protocol", READ)
def test_neither_labels_nor_the_reader_of_the_encoder_have_a_part(protocol: str) -> None:
    """A baseline has no saved reader, so the encoder's own would be an advantage; and labels are not for reading."""
    task = _task(Reader("white", 99, torch.zeros(DIM), torch.zeros(DIM, 1)))
    assert _score(protocol, task) == _score(protocol)
    (first,) = task.readers.values()
    other = _task(train=replace(_features(300, 0), labels=torch.zeros(300, dtype=torch.int64)))
    (second,) = [other.reader(*kind) for kind in task.readers]
    assert first.map is not None and second.map is not None and torch.equal(first.map, second.map)


def test_few_labels_are_read_by_all_training_images() -> None:
    task = _task()
    score = _score("knn", task, labels_per_class=5, draws=2)
    assert score.details["reader_images"] == 300 and len(score.details["scores"]) == 2


@pytest.mark.parametrize("kind", ["centred", "white"])
def test_features_in_a_file_give_the_same(kind: str) -> None:
    task = _task()
    for memory in (0, 10**9):
        streamed = _task(train=replace(task.train, streamed=True))
        streamed.machine = Machine(memory=memory)
        assert _score("knn", streamed, reader=kind) == _score("knn", reader=kind)


def test_only_our_own_protocols_read() -> None:
    assert {name for name in PROTOCOLS.names() if "reader" in settings_of(name).model_fields} == set(READ)
