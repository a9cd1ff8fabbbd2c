"""Many data sets: survived failures, resumption, and a second encoder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from cacr.encoders import build_encoder, load_encoder, save_encoder
from cacr.errors import UserError
from cacr.evaluation import evaluate_run, evaluate_suite, read_results
from cacr.evaluation.results.suite_report import SuiteReport
from cacr.reporting.suite import suite_table
from tests.evaluation.conftest import write_images
from tests.runs.test_result import RESULT

pytestmark = pytest.mark.trains

VALUES = {"protocol": ("fewshot",), "search": "quick", "epochs": 1, "final_epochs": 2, "workers": 0}


@pytest.fixture
def encoder(run: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "ours"
    folder.mkdir()
    for path in run.glob("encoder.*"):
        shutil.copy(path, folder)
    return folder


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    """Two sound sets, and one for each way to be unsound."""
    folder = tmp_path / "sets"
    for name in ("alpha", "pets", "short", "no-test", "empty", "no-labels"):
        write_images(folder / name / "train", per_class=6, seed=len(name))
        write_images(folder / name / "test", per_class=3, seed=100 + len(name))
    (folder / "short" / "train" / "red" / "0.png").unlink()
    (folder / "short" / "train" / "red" / "1.png").unlink()
    shutil.rmtree(folder / "no-test" / "test")
    for path in (folder / "empty" / "train").rglob("*.png"):
        path.unlink()
    for path in (folder / "no-labels" / "train").rglob("*.png"):
        path.rename(folder / "no-labels" / "train" / f"{path.parent.name}{path.name}")
    (folder / "notes.txt").touch()
    return folder


def test_a_suite_survives_sets_that_fail_and_says_which(encoder: Path, sets: Path) -> None:
    lines: list[str] = []
    report = evaluate_suite(encoder, {**VALUES, "data": f"suite:{sets}"}, tell=lines.append)
    assert report.sets == ["alpha", "empty", "no-labels", "no-test", "pets", "short"]
    assert sorted(name for name, _, _ in report.results) == ["alpha", "pets"]
    reasons = {failure.name: failure.reason for failure in report.failures}
    assert "has no images" in reasons["empty"]
    assert "has no labels" in reasons["no-labels"]
    assert "has neither test/ nor val/" in reasons["no-test"]
    assert "red (4)" in reasons["short"]
    assert len(lines) == 6 and sum("FAILED" in line for line in lines) == 4
    assert report.results["pets", "fewshot", "encoder"].metric == "mean-per-class"
    console = Console(width=300)
    with console.capture() as capture:
        console.print(suite_table(report))
    shown = " ".join(capture.get().split())
    assert "mean of 2" in shown and "4 of 6 data sets failed" in shown and "red (4)" in shown
    (summary,) = (encoder / "evaluation").glob("suite-*.json")
    stored = json.loads(summary.read_text())
    scores = [stored["scores"]["fewshot"][name]["encoder"]["score"] for name in ("alpha", "pets")]
    assert stored["mean"]["fewshot"]["encoder"] == pytest.approx(sum(scores) / 2)
    assert set(stored["failures"]) == {"empty", "no-labels", "no-test", "short"}


def test_what_was_measured_is_not_measured_again(
    encoder: Path, sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("empty", "no-labels", "no-test", "short"):
        shutil.rmtree(sets / name)
    values = {**VALUES, "data": f"suite:{sets}"}
    first = evaluate_suite(encoder, values)
    measured: list[str] = []
    from cacr.evaluation import suite

    real = suite.measure

    def watch(contestant, data, chosen, settings, *, progress=None):  # type: ignore[no-untyped-def]
        measured.append(Path(settings.data).name)
        return real(contestant, data, chosen, settings, progress=progress)

    monkeypatch.setattr(suite, "measure", watch)
    again = evaluate_suite(encoder, values)
    assert measured == [] and again.results == first.results
    next((encoder / "evaluation").glob("fewshot-pets-*.json")).unlink()  # as if stopped before it
    assert evaluate_suite(encoder, values).results.keys() == first.results.keys()
    assert measured == ["pets"]
    evaluate_suite(encoder, {**values, "final_epochs": 3})
    assert measured == ["pets", "alpha", "pets"]
    del measured[:]
    other_metric = evaluate_suite(encoder, {**values, "metric": "accuracy"})
    assert measured == ["pets"]  # whose metric is mean-per-class
    assert {result.metric for result in other_metric.results.values()} == {"accuracy"}
    del measured[:]
    assert evaluate_suite(encoder, values).results == first.results and not measured
    torch.manual_seed(5)
    save_encoder(encoder, other := build_encoder("small_alexnet", image_size=16, width=0.05), other.info)
    evaluate_suite(encoder, values)  # other weights in the same folder
    assert measured == ["alpha", "pets"]


def test_a_second_encoder_is_measured_beside_the_first(encoder: Path, sets: Path, tmp_path: Path) -> None:
    rival = tmp_path / "theirs"
    torch.manual_seed(1)
    made = build_encoder("small_alexnet", image_size=16, width=0.05)
    save_encoder(rival, made, replace(load_encoder(encoder).info, training={}))
    values = {**VALUES, "data": f"suite:{sets}", "baselines": ("pixels",)}
    report = evaluate_suite(encoder, values, against=rival)
    assert report.contestants == ["encoder", "pixels", "against theirs"]
    (alone,) = evaluate_run(rival, {**VALUES, "data": str(sets / "alpha")})
    assert report.results["alpha", "fewshot", "against theirs"].score == alone.score
    assert len(read_results(rival / "evaluation")) == 2
    standing = report.standing("fewshot", "against theirs")
    ours, theirs = (
        [round(report.results[name, "fewshot", who].score, 3) for name in ("alpha", "pets")]
        for who in ("encoder", "against theirs")
    )
    signs = [(a > b) - (a < b) for a, b in zip(ours, theirs, strict=True)]
    assert [standing.wins, standing.ties, standing.losses] == [signs.count(sign) for sign in (1, 0, -1)]


def test_one_set_without_a_test_part_is_divided(encoder: Path, sets: Path) -> None:
    values = {**VALUES, "data": str(sets / "no-test"), "labels_per_class": 3}
    report = evaluate_suite(encoder, values)
    assert "held out" in report.results["no-test", "fewshot", "encoder"].split
    with pytest.raises(UserError, match="has no labels"):
        evaluate_suite(encoder, {**VALUES, "data": str(sets / "no-labels")})
    with pytest.raises(UserError, match="work in one process only"):
        evaluate_suite(encoder, {**values, "devices": 2})


def test_held_out_images_are_measured_beside_the_test_part(encoder: Path, sets: Path) -> None:
    values = {**VALUES, "data": str(sets / "alpha"), "labels_per_class": 3}
    first = evaluate_suite(encoder, values).results["alpha", "fewshot", "encoder"]
    held = evaluate_suite(encoder, {**values, "held_out": True}).results["alpha", "fewshot", "encoder"]
    again = evaluate_suite(encoder, values).results["alpha", "fewshot", "encoder"]
    assert (first.held_out, held.held_out) == (False, True) and again == first


def test_wins_are_counted_to_a_tenth_of_a_percent() -> None:
    report = SuiteReport("s", ["a", "b", "c", "d"], ["knn"], ["encoder", "other"])
    for name, ours, theirs in (("a", 0.71, 0.7), ("b", 0.8, 0.5), ("c", 0.50004, 0.5), ("d", 0.1, 0.2)):
        report.results[name, "knn", "encoder"] = replace(RESULT, score=ours, spread=0.02)
        report.results[name, "knn", "other"] = replace(RESULT, score=theirs, spread=0.01)
    standing = report.standing("knn", "other")
    assert vars(standing) == {"wins": 2, "ties": 1, "losses": 1, "beyond_spread": 1}
    assert report.mean("knn", "encoder") == pytest.approx((0.71 + 0.8 + 0.50004 + 0.1) / 4)
    del report.results["d", "knn", "other"]
    assert report.complete("knn") == ["a", "b", "c"]


def test_encoders_that_cannot_be_loaded_are_named_at_once(encoder: Path, sets: Path, tmp_path: Path) -> None:
    description = json.loads((encoder / "encoder.json").read_text())
    (encoder / "encoder.json").write_text(json.dumps({**description, "image_size": 32}))
    with pytest.raises(UserError) as caught:
        evaluate_suite(encoder, {**VALUES, "data": f"suite:{sets}"}, against=tmp_path / "nowhere")
    assert "does not fit the encoder in its .json" in str(caught.value)
    assert "no run folder or weights file" in str(caught.value)


def test_a_folder_without_sets_is_refused(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(UserError, match="has no data sets"):
        evaluate_suite(encoder, {**VALUES, "data": f"suite:{tmp_path / 'none'}"})
    with pytest.raises(UserError, match="there is no folder"):
        evaluate_suite(encoder, {**VALUES, "data": f"suite:{tmp_path / 'nowhere'}"})
    with pytest.raises(UserError, match="use evaluate_suite"):
        evaluate_run(encoder, {**VALUES, "data": f"suite:{tmp_path}"})


def test_results_of_other_weights_and_other_places_stay_apart(encoder: Path, tmp_path: Path) -> None:
    for suffix in (".safetensors", ".json"):
        shutil.copy(encoder / f"encoder{suffix}", encoder / f"early{suffix}")
    data = write_images(tmp_path / "one" / "data", per_class=5, seed=0)
    values = {"data": str(data), "protocol": ("knn",), "workers": 0, "baselines": ()}
    evaluate_run(encoder, values)
    evaluate_run(encoder / "early.safetensors", values)
    assert len(list((encoder / "evaluation").glob("*.json"))) == 1
    assert len(list((encoder / "evaluation" / "early").glob("*.json"))) == 1
    named = replace(RESULT, data="cifar10", locations=["/a", "/a"])
    assert named.file_name != replace(named, locations=["/b", "/b"]).file_name
