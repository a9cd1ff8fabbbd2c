"""Better than before training, or not: from figures alone."""

import math

import pytest

from cacr.diagnostics.gain import FAINTLY, FOUND, LOST, NARROWED, gain

START = {"strong_rank": 0.1, "feature_rank": 100.0}


def _outcome(found: float, kept: float = 1.0, **labels: float) -> str | None:
    """``found`` is a factor on the odds of finding an image: 1 to 9 before training."""
    odds = found / 9
    now = {"strong_rank": odds / (1 + odds), "feature_rank": 100.0 * kept}
    before = dict(START)
    if labels:
        now["knn"], before["knn"] = labels["knn"], labels["before"]
    judged = gain(before, now, images=int(labels.get("images", 400)))
    return judged and judged.outcome


@pytest.mark.parametrize(
    ("found", "kept", "outcome"),
    [
        (2 * FOUND, 1.0, "better"),
        (2 * FOUND, 1.5, "better"),
        (2 * FOUND, 0.9 * NARROWED, "not clear"),  # it may find images by one thing alone
        (2 * FOUND, 0.4 * NARROWED, "worse"),
        ((FAINTLY + FOUND) / 2, 1.0, "not clear"),
        (1.0, 1.0, "no better"),
        (0.5 * LOST, 1.0, "worse"),
    ],
)
def test_stronger_views_decide_without_labels(found: float, kept: float, outcome: str) -> None:
    assert _outcome(found, kept) == outcome


@pytest.mark.parametrize(
    ("before", "now", "outcome"),
    [
        (0.5, 0.8, "better"),
        (0.5, 0.52, "no better"),
        (0.9, 0.97, "better"),
        (0.9, 0.6, "worse"),
        (1.0, 1.0, "no better"),
    ],
)
def test_a_good_start_can_still_become_better(before: float, now: float, outcome: str) -> None:
    """A factor on the rank itself could not exceed 2 here."""
    ranks = [{"strong_rank": rank, "feature_rank": 100.0} for rank in (before, now)]
    judged = gain(ranks[0], ranks[1], images=400)
    assert judged is not None
    assert judged.outcome == outcome


@pytest.mark.parametrize(
    ("knn", "outcome"), [(0.7, "better"), (0.3, "worse"), (0.52, "no better"), (0.48, "no better")]
)
def test_labels_decide_beyond_chance(knn: float, outcome: str) -> None:
    """Two standard deviations of the difference of two shares of a half, of 400 images each, are seven points."""
    assert 2 * math.sqrt(2 * 0.25 / 400) == pytest.approx(0.0707, abs=1e-4)
    assert _outcome(1.0, knn=knn, before=0.5) == outcome


def test_more_images_tell_smaller_differences() -> None:
    assert _outcome(1.0, knn=0.53, before=0.5, images=400) == "no better"
    assert _outcome(1.0, knn=0.53, before=0.5, images=40_000) == "better"


def test_labels_outvote_views() -> None:
    assert _outcome(3 * FOUND, knn=0.2, before=0.5) == "worse"
    assert _outcome(0.5 * LOST, knn=0.8, before=0.5) == "better"


def test_views_cannot_outvote_labels_that_point_the_other_way() -> None:
    """Numbers of a run on traffic signs whose features were worse than before training."""
    assert _outcome(3 * FOUND, knn=0.215, before=0.27, images=256) == "not clear"
    assert _outcome(3 * FOUND, knn=0.26, before=0.27, images=256) == "better"


@pytest.mark.parametrize("lacking", ["start", "now"])
def test_nothing_to_compare(lacking: str) -> None:
    none: dict[str, float] = {"feature_rank": 10.0}
    assert (
        gain(none if lacking == "start" else START, none if lacking == "now" else START, images=400) is None
    )


def test_the_evidence_has_the_figures_of_both() -> None:
    judged = gain(
        {**START, "knn": 0.123}, {"strong_rank": 0.37, "feature_rank": 155.0, "knn": 0.456}, images=400
    )
    assert judged is not None
    for text, figures in zip(
        judged.evidence, (("45.6%", "12.3%"), ("0.37", "0.10"), ("155", "100")), strict=True
    ):
        assert all(figure in text for figure in figures)
