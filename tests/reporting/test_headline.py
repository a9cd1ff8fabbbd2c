"""What the page says of results, and what it proposes to do next."""

import math
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cacr.cli import app
from cacr.evaluation.contestants import evaluation_folder
from cacr.evaluation.guest import Guest
from cacr.reporting.headline import headline
from cacr.reporting.next_step import guest_lines, next_step
from cacr.reporting.standings import gain, standings, subjects_of
from cacr.runs.folder import RunFolder
from cacr.runs.result import Result, write_result
from cacr.runs.run import Run
from cacr.runs.verdict import Verdict, write_verdict
from tests.conftest import resolved

RESULT = Result(
    protocol="linear",
    subject="encoder",
    score=0.75,
    spread=None,
    data="digits",
    test_data="digits",
    split="the test images",
    labels_per_class=None,
    counts={"test_images": 400, "classes": 10},
    settings={"k": 1},
    seed=0,
    details={},
    encoder={},
    training={},
)


def _run(folder: Path, *results: Result, verdict: str | None = None) -> Run:
    run = RunFolder(folder)
    run.create()
    run.write_settings(resolved(), {})
    for result in results:
        write_result(run.evaluation, result)
    if verdict:
        write_verdict(run.verdict, Verdict(verdict, [], [], 1, 1.0))  # type: ignore[arg-type]
    return Run.open(folder)


def test_results_stand_beside_those_that_were_measured_alike() -> None:
    results = [
        replace(RESULT, subject=subject, labels_per_class=few, seed=seed)
        for subject in ("pixels", "other", "untrained", "encoder")
        for few, seed in ((None, 0), (None, 1), (5, 0))
    ]
    found = standings([*results, replace(RESULT, subject="start", seed=7, settings={"k": 2})])
    assert [set(standing.of) for standing in found] == [{"pixels", "other", "untrained", "encoder"}] * 3 + [
        {"start"}
    ]
    assert subjects_of(found) == ["encoder", "start", "untrained", "pixels", "other"]
    assert subjects_of(found[:3]) == ["encoder", "untrained", "pixels", "other"]
    assert [standing.label for standing in found] == ["seed 0, k 1", "seed 1, k 1", "", "seed 7, k 2"]


def test_held_out_images_are_not_compared_with_test_images(tmp_path: Path) -> None:
    results = [
        replace(RESULT, score=0.6, held_out=True, split="a fifth"),
        replace(RESULT, score=0.8),
        replace(RESULT, score=0.5, held_out=True, split="a fifth", subject="pixels"),
        replace(RESULT, score=0.7, subject="pixels"),
    ]
    assert [set(standing.of) for standing in standings(results)] == [{"encoder", "pixels"}] * 2
    assert "test images held out" in standings(results)[0].label
    assert headline(_run(tmp_path, *results)).title == "Better than the raw pixels, by 10.0 points."


def test_a_gain_is_judged_by_its_spread_or_by_the_number_of_images() -> None:
    few = replace(RESULT, spread=0.02)
    for score, outcome in ((0.70, "better"), (0.72, "equal"), (0.78, "equal"), (0.80, "worse")):
        found = gain(few, replace(few, subject="pixels", score=score))
        assert found.points == pytest.approx(75 - 100 * score) and found.doubt == pytest.approx(4)
        assert found.outcome == outcome
    chance = 200 * math.sqrt((0.75 * 0.25 + 0.7 * 0.3) / 400)
    assert gain(RESULT, replace(RESULT, score=0.7)).doubt == pytest.approx(chance)
    assert gain(RESULT, replace(RESULT, score=0.7)).outcome == "equal"
    classes = replace(RESULT, metric="mean-per-class")
    assert gain(classes, replace(classes, score=0.7)).doubt == pytest.approx(chance)
    assert gain(replace(RESULT, metric="mAP"), replace(RESULT, metric="mAP", score=0.7)).doubt is None


@pytest.mark.parametrize(
    ("scores", "title"),
    [
        ({"untrained": 0.5, "pixels": 0.6}, "Better than the same network untrained, by 25.0 points."),
        (
            {"untrained": 0.5, "pixels": 0.85},
            "Better than the same network untrained, by 25.0 points. But worse than the raw pixels, by 10.0 points.",
        ),
        (
            {"untrained": 0.5, "pixels": 0.74},
            "Better than the same network untrained, by 25.0 points. But no clear difference from the raw pixels: "
            "+1.0 points.",
        ),
        ({"untrained": 0.9}, "Worse than the same network untrained, by 15.0 points."),
        ({"untrained": 0.74}, "No clear difference from the same network untrained: +1.0 points."),
        ({"untrained": 0.1, "start": 0.9}, "Worse than the weights that it started from, by 15.0 points."),
        ({"pixels": 0.2}, "Better than the raw pixels, by 55.0 points."),
        ({}, "It reaches 75.0 %; there is no baseline to compare with."),
    ],
)
def test_a_headline_says_what_the_numbers_mean(tmp_path: Path, scores: dict[str, float], title: str) -> None:
    others = [replace(RESULT, subject=subject, score=score) for subject, score in scores.items()]
    said = headline(_run(tmp_path, RESULT, *others, verdict="healthy"))
    assert said.title == title
    assert ("Differences of up to" in said.text) is bool(others)
    assert "a linear classifier on its features (all labels): 75.0 % accuracy, compared with" in said.text
    assert "10.0 % by guessing" in said.text
    assert all(f"{100 * score:.1f} %" in said.text for score in scores.values())


def test_a_difference_whose_chance_is_not_known_is_not_called_better(tmp_path: Path) -> None:
    found = [
        replace(RESULT, metric="map-11"),
        replace(RESULT, metric="map-11", subject="pixels", score=0.7499),
    ]
    said = headline(_run(tmp_path, *found))
    assert said.title == "Above the raw pixels by 0.0 points, which may be chance."


def test_measurements_that_disagree_are_named(tmp_path: Path) -> None:
    knn = replace(RESULT, protocol="knn", score=0.3)
    others = [replace(each, subject="untrained", score=0.5) for each in (RESULT, knn)]
    said = headline(_run(tmp_path, RESULT, knn, *others))
    assert said.title.startswith("Better than the same network untrained")
    assert said.text.endswith("Not all measurements agree: knn (all labels) says worse.")


def test_without_results_the_verdict_speaks(tmp_path: Path) -> None:
    assert headline(_run(tmp_path / "a")).title == "Nothing has been measured yet."
    assert headline(_run(tmp_path / "b", verdict="healthy")).title.startswith("The run looks healthy")
    collapsed = headline(_run(tmp_path / "c", verdict="collapsed to a point"))
    assert "all images look the same" in collapsed.title and "not been evaluated" in collapsed.text


def test_results_of_an_earlier_encoder_are_not_in_the_headline(tmp_path: Path) -> None:
    said = headline(_run(tmp_path, replace(RESULT, weights="0123456789abcdef")))
    assert said.title == "Nothing has been measured yet."


def test_a_run_that_failed_is_begun_again_and_one_that_was_stopped_goes_on(tmp_path: Path) -> None:
    failed = next_step(_run(tmp_path / "my run", verdict="diverging"))
    words = [
        "cacr",
        "pretrain",
        "--config",
        str(tmp_path / "my run/config.yaml"),
        "--out",
        str(tmp_path / "my run-2"),
    ]
    assert shlex.split(failed.command) == words
    young = next_step(_run(tmp_path / "young", verdict="healthy"))
    assert shlex.split(young.command) == ["cacr", "pretrain", "--out", str(tmp_path / "young"), "--resume"]


@pytest.mark.trains
def test_the_commands_can_be_run_one_after_the_other(trained: Path, tmp_path: Path) -> None:
    """Search without labels, evaluate with them; then, by how it compares with baselines, train longer or export."""
    path = Path(shutil.copytree(trained, tmp_path / "it's a run"))

    def follow(start: str) -> str:
        words = shlex.split(next_step(Run.open(path)).command)
        assert words[:2] == ["cacr", start]
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, result.output
        return result.output

    assert "cosine" in follow("search")
    with (path / "metrics.jsonl").open("a") as file:  # as the diagnostics write it where there are labels
        file.write('{"step": 10, "epoch": 2.0, "knn": 0.5}\n')
    assert "untrained" in follow("evaluate")
    own = [r for r in Run.open(path).results if r.subject == "encoder"]
    for result in Run.open(path).results:
        write_result(path / "evaluation", replace(result, score=0.0 if result in own else 1.0))
    steps = Run.open(path).training.steps
    follow("pretrain")
    assert Run.open(path).training.steps == 2 * (steps or 0)
    follow("evaluate")
    for result in Run.open(path).results:
        write_result(path / "evaluation", replace(result, score=float(result.subject == "encoder")))
    follow("export")
    assert (tmp_path / "it's a run.safetensors").is_file()


def test_a_training_that_made_its_weights_worse_is_left(tmp_path: Path) -> None:
    init = "timm:resnet18@my weights.pth"
    for name, verdict, others in (
        ("judged", "worse than before training", []),
        ("measured", "healthy", [RESULT, replace(RESULT, subject="start", score=0.9)]),
    ):
        folder = RunFolder(tmp_path / name)
        _run(folder.path, *others, verdict=verdict)
        folder.write_settings(resolved(data="my photos", init=init), {})
        (folder.path / "encoder.safetensors").touch()
        step = next_step(Run.open(folder.path))
        assert step.words.startswith("On these images") and "initial weights are better" in step.words
        assert shlex.split(step.command) == ["cacr", "group", init, "my photos", "--out", "groups.csv"]


def test_without_a_clear_difference_the_initial_weights_are_named(tmp_path: Path) -> None:
    for init, words in (
        ("timm:resnet18@a.pth", "Use the initial weights, or train longer:"),
        (None, "Train longer:"),
    ):
        folder = RunFolder(tmp_path / words[:3])
        _run(folder.path, RESULT, replace(RESULT, subject="start", score=0.74), verdict="healthy")
        folder.write_settings(resolved(init=init), {})
        (folder.path / "encoder.safetensors").touch()
        assert next_step(Run.open(folder.path)).words == words


def test_what_comes_next_finds_the_same_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of weights without a run: where they were measured, with which lists, and what must be fetched."""
    monkeypatch.chdir(tmp_path)
    assert guest_lines(Guest.visit("timm:resnet18")) == [
        "what next? Measure how good its features are on labelled images: "
        "cacr evaluate timm:resnet18 --data DATA --download"
    ]
    places = ["/my sets", "/my sets", "images except:/a.csv", "labels /b.csv"]
    write_result(Path("evaluation/timm-resnet18"), replace(RESULT, locations=places))
    lines = guest_lines(Guest.visit("timm:resnet18"))
    where = ["--data-root", "/my sets", "--images", "except:/a.csv", "--labels", "/b.csv", "--download"]
    first = ["cacr", "pretrain", "digits", "--init", "timm:resnet18", *where, "--out", "runs/timm-resnet18"]
    assert shlex.split(lines[0])[-len(first) :] == first
    second = ["cacr", "group", "timm:resnet18", "digits", *where, "--out", "groups.csv"]
    assert shlex.split(lines[1])[-len(second) :] == second


@pytest.mark.parametrize(("root", "words"), [("data", []), ("my sets", ["--data-root", "my sets"])])
def test_a_proposal_says_where_named_sets_lie_only_where_that_is_not_the_default(
    tmp_path: Path, root: str, words: list[str]
) -> None:
    _run(tmp_path / "run", verdict="healthy")
    RunFolder(tmp_path / "run").write_settings(resolved(data_root=root), {})
    (tmp_path / "run/encoder.safetensors").touch()
    command = next_step(Run.open(tmp_path / "run")).command
    assert shlex.split(command) == ["cacr", "search", str(tmp_path / "run"), "0", "--data", "digits", *words]


def test_results_of_installed_weights_lie_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, here in (
        ("site-packages/lite0", True),
        ("models--timm--a/snapshots/0", True),
        ("own", False),
    ):
        file = tmp_path / folder / "weights.pth"
        file.parent.mkdir(parents=True)
        file.touch()
        own = Path("evaluation") if here else file.parent / "evaluation"
        assert evaluation_folder(f"timm:resnet18@{file}") == own / "weights"
