"""Verdicts on real, short runs: every framework and objective is healthy, and what is broken is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cacr.data import ArraySource, open_source
from cacr.diagnostics.observer import observe
from cacr.errors import UserError
from cacr.frameworks import FRAMEWORKS
from cacr.losses import OBJECTIVES, CACRLoss
from cacr.runs.run import Run
from cacr.training.loop import meter
from cacr.training.pretrain import pretrain
from tests.diagnostics.test_evidence import OF_READ

pytestmark = pytest.mark.trains

SETTINGS = {
    "preset": "digits",
    "encoder": "small_alexnet",
    "width": 0.1,
    "views": 2,
    "batch_size": 64,
    "epochs": 4,
    "measure_every_epochs": 2,
    "precision": "float32",
}
PAIRS = [
    (framework, objective)
    for framework in FRAMEWORKS
    for objective in OBJECTIVES
    if FRAMEWORKS[framework].refusal(OBJECTIVES[objective]()) is None
    and not FRAMEWORKS[framework].reads_captions  # which digits have none of
]
COMPARED = {"healthy", "no better than before training", "worse than before training"}
"""What is said of a run that has neither collapsed nor stands still."""

FAST = {"cacr"}
"""Objectives that the default suite trains with every framework."""

SMALL = {"image_size": 16}
"""For runs whose verdict has nothing to do with what is on the images: a quarter of the pixels."""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """640 handwritten digits: 10 batches an epoch."""
    part = open_source("digits").subset(np.arange(0, 3840, 6))
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    np.savez(path, x=part.images[:, 0].numpy(), y=part.labels)
    return path


def _verdicts(out: Path) -> list[str]:
    verdict = Run.open(out).verdict
    return [past.verdict for past in verdict.history] if verdict else []


def _train(digits: Path, out: Path, **settings: Any) -> list[str]:
    pretrain({"data": str(digits), **SETTINGS, **settings}, out, observe=observe)
    return _verdicts(out)


@pytest.mark.parametrize(
    ("framework", "objective"),
    [pytest.param(*pair, marks=[] if pair[1] in FAST else pytest.mark.slow) for pair in PAIRS],
)
def test_runs_that_work_are_not_called_broken(
    framework: str, objective: str, digits: Path, tmp_path: Path
) -> None:
    """After forty steps some are better than before training, others not yet, or worse for now: none has collapsed."""
    verdicts = _train(digits, tmp_path / "run", framework=framework, objective=objective)
    rows = [row for row in Run.open(tmp_path / "run").rows if "effective_rank" in row]
    assert all(row.keys() >= OF_READ | {"knn"} for row in rows)
    assert set(verdicts) <= COMPARED | {"not sure yet"}, rows


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"repulsion": 0.0, "head": "linear"}, "collapsed to a point"),
        pytest.param({"weight_decay": 1.0, "head": "linear"}, "collapsed to a point", marks=pytest.mark.slow),
        # 120 small steps: a run is not called stuck before 100
        (
            {"lr": 1e-8, "batch_size": 16, "epochs": 3, "measure_every_epochs": 1},
            "not learning",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_broken_runs_are_named(settings: dict[str, Any], name: str, digits: Path, tmp_path: Path) -> None:
    assert _train(digits, tmp_path / "run", **SMALL, **settings)[-1] == name


def test_data_of_two_images_is_a_dimensional_collapse(tmp_path: Path) -> None:
    """Black and white squares, whose views are all alike: no weights can give embeddings of a rank above two."""
    squares = np.zeros((640, 28, 28), np.uint8)
    squares[::2] = 255
    np.savez(tmp_path / "squares.npz", x=squares)
    assert _train(tmp_path / "squares.npz", tmp_path / "run", jitter=0, **SMALL) == ["dimensional collapse"]


def test_a_run_that_diverges_leaves_its_verdict(digits: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not finite|is nan"):
        _train(digits, tmp_path / "run", lr=1e30, schedule="constant")
    assert _verdicts(tmp_path / "run") == ["diverging"]


class _Clock:
    """Seconds that pass where a test lets them pass: the same on a slow, a fast and a busy machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += 1e-4
        return self.now

    def slowed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*arguments: Any, **more: Any) -> Any:
            self.now += 1
            return work(*arguments, **more)

        return slow


@pytest.mark.parametrize("slow", ["loader", "training"])
def test_a_slow_loader_is_named(
    slow: str, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Clock()
    monkeypatch.setattr(meter, "time", clock)
    if slow == "loader":
        monkeypatch.setattr(ArraySource, "take", clock.slowed(ArraySource.take))
    else:
        monkeypatch.setattr(CACRLoss, "parts", clock.slowed(CACRLoss.parts))
    verdicts = _train(digits, tmp_path / "run", **SMALL)
    assert (verdicts[-1] == "starved by the loader") == (slow == "loader")
    share = Run.open(tmp_path / "run").rows[-1]["data_wait"]
    assert share == pytest.approx(1 if slow == "loader" else 0, abs=0.01)
