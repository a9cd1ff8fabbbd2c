"""The counts that each rule keeps, against the paper's code as spelled out in the specification."""

import math

import numpy as np
import pytest
import torch
from sklearn.utils import shuffle

from cacr.data import ArraySource, imbalanced, make_imbalanced
from cacr.errors import UserError

CIFAR10 = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 5000))
CIFAR100 = np.random.default_rng(0).permutation(np.repeat(np.arange(100), 500))


@pytest.mark.parametrize(
    ("labels", "rule", "per_group", "total"),
    [
        (CIFAR10, "linear", list(range(500, 5001, 500)), 27_500),
        (CIFAR10, "exponential", [0, 1, 4, 12, 33, 91, 248, 676, 1839, 5000], 7_904),
        (CIFAR100, "linear", list(range(50, 501, 50)), 27_500),
        (CIFAR100, "exponential", [0, 0, 0, 1, 3, 9, 24, 67, 183, 500], 7_870),
    ],
)
def test_p17_published_counts(labels: np.ndarray, rule: str, per_group: list[int], total: int) -> None:
    kept = make_imbalanced(labels, rule, seed=2021)
    counts = np.bincount(labels[kept], minlength=labels.max() + 1)
    assert counts.tolist() == np.repeat(per_group, len(counts) // 10).tolist()
    assert len(kept) == len(set(kept.tolist())) == total
    assert (np.diff(kept) > 0).all()


def test_the_kept_images_are_those_of_the_authors_code() -> None:
    kept = make_imbalanced(CIFAR10, "exponential", seed=2021)
    expected: list[int] = []
    for label in range(10):
        members = np.where(label == CIFAR10)[0]
        expected += list(
            shuffle(members, random_state=2021)[: int(math.exp(label + 1) / math.exp(10) * len(members))]
        )
    assert kept.tolist() == sorted(expected)


def test_p17_the_seed_chooses_the_images() -> None:
    first, again, other = (make_imbalanced(CIFAR10, "linear", seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_longtail_runs_from_the_head_to_its_ratio() -> None:
    counts = np.bincount(CIFAR10[make_imbalanced(CIFAR10, "longtail:100", 0)])
    expected = [int(5000 * 100 ** (-label / 9)) for label in range(10)]
    assert counts.tolist() == expected and counts[0] == 5000 and counts[9] == 50


def test_few_classes_still_keep_the_last_one_whole() -> None:
    labels = np.repeat(np.arange(4), 100)
    assert np.bincount(labels[make_imbalanced(labels, "linear", 0)]).tolist() == [25, 50, 75, 100]


@pytest.mark.parametrize(
    "rule", ["square", "longtail", "longtail:zero", "longtail:0.5", "longtail:nan", "linear:3"]
)
def test_unknown_rules(rule: str) -> None:
    with pytest.raises(UserError, match="longtail:RATIO"):
        make_imbalanced(CIFAR10, rule, 0)


def test_a_source_says_what_was_kept_and_what_is_empty() -> None:
    labels = np.repeat(np.arange(10), 100)
    names = [f"class{label}" for label in range(10)]
    source = ArraySource(
        "toy", torch.zeros(1000, 3, 2, 2, dtype=torch.uint8), labels=labels, class_names=names
    )
    kept, indices = imbalanced(source, "exponential", seed=0)
    assert np.array_equal(kept.labels, labels[indices])
    assert kept.class_counts()["class9"] == 100  # type: ignore[index]
    assert kept.notes == (
        "imbalance exponential: 154 of 1,000 images, 0 to 100 per class; "
        "5 of 10 classes are empty: class0, class1, class2, class3, class4",
    )
    with pytest.raises(UserError, match="needs class labels"):
        imbalanced(ArraySource("bare", torch.zeros(4, 3, 2, 2, dtype=torch.uint8)), "linear")
