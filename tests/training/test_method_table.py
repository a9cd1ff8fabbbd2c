"""The script behind the table of methods: it covers them all, repeats nothing, and stops without a half cell."""

import importlib
from argparse import Namespace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cacr.frameworks import FRAMEWORKS
from cacr.methods import METHODS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("methods")


@pytest.fixture
def options(tmp_path: Path) -> Namespace:
    work, results = tmp_path / "work", tmp_path / "results"
    return Namespace(data=tmp_path, work=work, results=results, views=1000, rate=None)


def test_it_covers_every_method_of_images(script: ModuleType) -> None:
    of_images = {name for name in METHODS if not FRAMEWORKS[METHODS[name].framework].reads_captions}
    assert set(script.ORDER) == of_images and len(script.ORDER) == len(of_images)


def test_the_best_of_three_rates_is_tested_with_two_seeds_and_nothing_is_repeated(
    script: ModuleType, options: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[tuple[float, int, str]] = []

    def train(method: str, rate: float, seed: int, fit: str, judge: str, views: int, out: Path) -> Any:
        trained.append((rate, seed, judge))
        score = {"knn": 0.5 - abs(rate - best), "ridge": 0.3, "start knn": 0.4, "start ridge": 0.2}
        return {**score, "base_lr": rate, "steps": 3}

    low, own, best = script.rates("byol")
    assert (low, best) == pytest.approx((own / 3, 3 * own), rel=0.02)

    parts = SimpleNamespace(fit="fit", judge="judge", train="train", test="test")
    monkeypatch.setattr(script, "train", train)
    monkeypatch.setattr(script, "prepare", lambda *_: parts)
    script.run_method("byol", options)
    assert [judge for _, _, judge in trained] == ["judge"] * 3 + ["test"] * 2
    assert [(rate, seed) for rate, seed, _ in trained[3:]] == [(best, 0), (best, 1)]
    (options.results / f"byol-1000-test-{best:.2g}-1.json").unlink()
    script.run_method("byol", options)
    assert trained[5:] == [(best, 1, "test")]
    (options.results / f"byol-1000-choose-{low:.2g}.json").unlink()
    assert "Not run yet: byol, swav." in script.table(("byol", "swav"), options.results, 1000)
    script.run_method("byol", options)
    assert trained[6:] == [(low, 0, "judge")]
    text = script.table(("byol", "swav"), options.results, 1000)
    assert f"| `byol` | 50.0, 50.0 (+10.0) | 30.0, 30.0 (+10.0) | {best:.2g} | {low:.2g}: " in text
    assert "Not run yet: swav." in text


def test_longer_runs_have_the_rate_that_is_given(
    script: ModuleType, options: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = {"knn": 0.5, "ridge": 0.3, "start knn": 0.4, "start ridge": 0.2}
    monkeypatch.setattr(script, "train", lambda _, rate, *__: {**score, "base_lr": rate, "steps": 3})
    parts = SimpleNamespace(fit="fit", judge="judge", train="train", test="test")
    monkeypatch.setattr(script, "prepare", lambda *_: parts)
    script.run_method("swav", Namespace(**{**vars(options), "views": 4000, "rate": 0.5}))
    assert {file.name for file in options.results.iterdir()} == {
        f"swav-4000-test-0.5-{seed}.json" for seed in script.SEEDS
    }
    assert "| `swav` | 50.0, 50.0 (+10.0) |" in script.table(("swav",), options.results, 4000)


def test_an_interrupted_training_is_not_judged(
    script: ModuleType, options: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = SimpleNamespace(status="interrupted")
    monkeypatch.setattr("cacr.training.pretrain.pretrain", lambda *_, **__: stopped)
    with pytest.raises(SystemExit) as caught:
        script.cell("byol-1000-choose-own", "byol", 1.0, 0, "fit", "judge", options)
    assert caught.value.code == 130 and not options.results.exists()


def test_two_processes_are_not_at_one_method(script: ModuleType, tmp_path: Path) -> None:
    with script.at_work(tmp_path / "byol.lock") as first, script.at_work(tmp_path / "byol.lock") as second:
        assert (first, second) == (True, False)
    with script.at_work(tmp_path / "byol.lock") as later:
        assert later
