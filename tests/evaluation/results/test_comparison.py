"""Runs side by side: who belongs together, what is compared, and what is never claimed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy import stats

import cacr
from cacr.errors import UserError
from cacr.evaluation import Result, compare_runs, write_result
from cacr.reporting import comparison_tables
from cacr.runs.budget import Budget, budget_of
from cacr.runs.folder import RunFolder
from tests.conftest import resolved

TRAINING = {"images": 58, "views": 2, "batch_size": 16, "steps": 8, "processes": 1, "finished": True}


def make_run(
    folder: Path,
    *,
    seed: int,
    score: float,
    training: dict[str, Any] | None = None,
    test_images: int = 10_000,
    **settings: Any,
) -> Path:
    """A run folder with one result, as if it had been trained and evaluated."""
    folder.mkdir(parents=True)
    RunFolder(folder).write_settings(
        resolved(**{"data": "photos", "seed": seed, "workers": seed, **settings}), {}
    )
    info = {"encoder": "small_alexnet", "image_size": 32, "feature_dim": 8, "format": 1}
    info["training"] = {**TRAINING, **(training or {}), "seed": seed}
    (folder / "encoder.json").write_text(json.dumps(info))
    (folder / "encoder.safetensors").write_bytes(b"not read")
    result = Result(
        protocol="knn",
        subject="encoder",
        score=score,
        spread=None,
        data="d",
        test_data="d",
        split="the test part of d",
        labels_per_class=None,
        counts={"test_images": test_images},
        settings={"k": 20},
        seed=0,
        details={},
        encoder={},
        training=info["training"],
    )
    write_result(folder / "evaluation", result)
    write_result(folder / "evaluation", replace(result, subject="pixels", score=0.99))
    return folder


def _runs(folder: Path, objective: str, scores: list[float], **settings: Any) -> list[Path]:
    return [
        make_run(folder / f"{objective}-{seed}", seed=seed, score=score, objective=objective, **settings)
        for seed, score in enumerate(scores)
    ]


def _shown(comparison: Any, width: int = 200) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        for table in comparison_tables(comparison):
            console.print(table)
    return " ".join(capture.get().split())


def test_runs_that_differ_in_the_seed_are_averaged_and_paired(tmp_path: Path) -> None:
    ours, theirs = [0.70, 0.72, 0.71], [0.66, 0.67, 0.665]
    paths = [*_runs(tmp_path, "info_nce", theirs), *reversed(_runs(tmp_path, "cacr", ours))]
    comparison = compare_runs(paths)
    assert [group.name for group in comparison.groups] == ["info_nce", "cacr"]
    assert [group.differs for group in comparison.groups] == [
        {"objective": "info_nce"},
        {"objective": "cacr"},
    ]
    reference, line = comparison.lines
    assert (reference.group, reference.scores, reference.verdict) == ("info_nce", dict(enumerate(theirs)), "")
    assert line.mean == pytest.approx(0.71) and line.deviation == pytest.approx(0.01)
    expected = stats.ttest_rel(ours, theirs)
    assert line.difference.p == line.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert line.p < 0.05 and line.verdict == "better"
    shown = _shown(comparison)
    assert "71.0 ± 1.0" in shown and "+4.5" in shown and "better" in shown and "paired t-test" in shown
    assert " 0.004 better" in shown
    assert comparison.notes == ()
    backwards = compare_runs(paths[::-1])
    assert backwards.lines[1].verdict == "worse"


def test_nothing_is_cut_off_in_eighty_columns(tmp_path: Path) -> None:
    theirs = _runs(tmp_path, "info_nce", [0.66, 0.70, 0.68])
    ours = _runs(tmp_path, "hard_negative", [0.69, 0.68, 0.71])
    for paths in ([*theirs, *ours], [theirs[0], ours[0]], [*theirs, *ours[:2], ours[2]]):
        comparison = compare_runs(paths)
        narrow, wide = _shown(comparison, 80), _shown(comparison, 300)
        assert "…" not in narrow and sorted("".join(narrow.split())) == sorted(
            "".join(wide.replace("─", "").split()) + "─" * narrow.count("─")
        )


def test_a_difference_inside_the_noise_is_never_a_win(tmp_path: Path) -> None:
    paths = [*_runs(tmp_path, "info_nce", [0.66, 0.70, 0.68]), *_runs(tmp_path, "cacr", [0.69, 0.68, 0.71])]
    line = compare_runs(paths).lines[1]
    assert line.mean > 0.69 and line.verdict == "no difference shown"
    alone = compare_runs([paths[0], paths[3]])
    assert alone.lines[1].verdict == "too few seeds" and alone.lines[1].p is None
    assert "too few seeds" in _shown(alone) and any("fewer than three seeds" in note for note in alone.notes)
    tiny = [
        *_runs(tmp_path / "tiny", "info_nce", [0.5, 0.6], test_images=10),
        *_runs(tmp_path / "tiny", "cacr", [0.6, 0.7], test_images=10),
    ]
    assert compare_runs(tiny).lines[1].verdict == "no difference shown"


def test_many_differences_are_corrected_together(tmp_path: Path) -> None:
    base = [0.70, 0.72, 0.71, 0.70]
    near = [0.72, 0.724, 0.72, 0.714]  # p = 0.037 alone
    paths = _runs(tmp_path, "info_nce", base)
    assert compare_runs([*paths, *_runs(tmp_path, "cacr", near)]).lines[1].verdict == "better"
    others = []
    for views in (3, 4, 5, 6):
        others += _runs(tmp_path / str(views), "cacr", near if views == 3 else base[::-1], views=views)
    lines = [line for line in compare_runs([*paths, *others]).lines if line.difference]
    assert len(lines) == 4
    assert lines[0].difference is not None and lines[0].difference.p < 0.05 < (lines[0].p or 0)
    assert {line.verdict for line in lines} == {"no difference shown"}


def test_different_budgets_and_stale_or_missing_numbers_are_told(tmp_path: Path) -> None:
    short = _runs(tmp_path, "info_nce", [0.6, 0.61, 0.62])
    long = [
        make_run(
            tmp_path / f"long{seed}",
            seed=seed,
            score=0.7 + seed / 100,
            objective="cacr",
            training={"steps": 16, "finished": seed > 0},
        )
        for seed in range(3)
    ]
    comparison = compare_runs([*short, *long])
    assert comparison.groups[0].budgets[0] == Budget(58, 2, 16, 8, 232)
    assert comparison.groups[1].budgets[0].views_seen == 464
    assert any("same number of views (info_nce: 232; cacr: 464)" in note for note in comparison.notes)
    assert f"{long[0]} is not finished" in comparison.notes

    info = json.loads((short[1] / "encoder.json").read_text())
    info["training"]["steps"] = 12
    (short[1] / "encoder.json").write_text(json.dumps(info))
    for path in (short[2] / "evaluation").iterdir():
        path.unlink()
    comparison = compare_runs([*short, *long])
    assert any("measured at step 8, but its encoder is now that of step 12" in n for n in comparison.notes)
    assert f"knn accuracy, d: not measured on {short[2]}" in comparison.notes
    assert comparison.lines[1].difference is not None and comparison.lines[1].difference.seeds == 2


def test_only_what_was_measured_alike_is_compared(tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "a", seed=0, score=0.5), make_run(tmp_path / "b", seed=1, score=0.9)
    (path,) = (second / "evaluation").glob("knn-d-[0-9a-f]*.json")
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "settings": {"k": 5}}))
    lines = compare_runs([first, second]).lines
    assert {line.measure: line.scores for line in lines} == {
        "knn accuracy, d (k=20)": {0: 0.5},
        "knn accuracy, d (k=5)": {1: 0.9},
    }


def _evaluate(folder: Path, seed: int, score: float, **changes: Any) -> None:
    """One more result like the first, made with another seed."""
    path = next((folder / "evaluation").glob("knn-d-[0-9a-f]*.json"))
    first = Result(**json.loads(path.read_text()))
    write_result(folder / "evaluation", replace(first, seed=seed, score=score, **changes))


def test_runs_may_be_evaluated_with_seeds_of_their_own(tmp_path: Path) -> None:
    paths = [*_runs(tmp_path, "info_nce", [0.6, 0.61, 0.62]), *_runs(tmp_path, "cacr", [0.7, 0.71, 0.72])]
    for path in paths:
        for stored in (path / "evaluation").glob("*.json"):
            seed = int(path.name[-1])
            result = json.loads(stored.read_text())
            split = f"a fifth of each class of d, held out with seed {seed}"
            stored.write_text(json.dumps({**result, "seed": seed, "split": split, "held_out": True}))
    reference, line = compare_runs(paths).lines
    assert (reference.measure, reference.scores) == ("knn accuracy, d", {0: 0.6, 1: 0.61, 2: 0.62})
    assert line.scores == {0: 0.7, 1: 0.71, 2: 0.72} and line.verdict == "better"


def test_a_seed_of_the_evaluation_that_all_runs_have_is_used_alone(tmp_path: Path) -> None:
    paths = _runs(tmp_path, "cacr", [0.7, 0.72])
    _evaluate(paths[0], 5, 0.9)
    (line,) = compare_runs(paths).lines
    assert (line.measure, line.scores) == ("knn accuracy, d", {0: 0.7, 1: 0.72})
    _evaluate(paths[1], 5, 0.8)
    assert {line.measure: line.scores for line in compare_runs(paths).lines} == {
        "knn accuracy, d (seed=0)": {0: 0.7, 1: 0.72},
        "knn accuracy, d (seed=5)": {0: 0.9, 1: 0.8},
    }
    for path, kept in zip(paths, (5, 0), strict=True):  # no seed in common: the mean of those there are
        _evaluate(path, 7 + kept, 0.5)
        for stored in (path / "evaluation").glob("knn-d-[0-9a-f]*.json"):
            if json.loads(stored.read_text())["seed"] not in (kept, 7 + kept):
                stored.unlink()
    (line,) = compare_runs(paths).lines
    assert line.scores == pytest.approx({0: (0.9 + 0.5) / 2, 1: (0.72 + 0.5) / 2})


def test_notes_are_few(tmp_path: Path) -> None:
    paths = [*_runs(tmp_path, "info_nce", [0.6, 0.61]), *_runs(tmp_path, "cacr", [0.7, 0.71])]
    for name in "efgh":
        _evaluate(paths[0], 0, 0.5, test_data=name)
    info = json.loads((paths[1] / "encoder.json").read_text())
    info["training"]["images"] = 10_000  # 256 views of the same 8 steps, not 232
    (paths[1] / "encoder.json").write_text(json.dumps(info))
    notes = compare_runs(paths).notes
    missing = "knn accuracy, e; knn accuracy, f; knn accuracy, g and 1 more: not measured on "
    assert [note for note in notes if "not measured" in note] == [missing + ", ".join(map(str, paths[1:]))]
    assert sum("same number of views" in note for note in notes) == 1
    for path in paths:  # 128,000 and 127,520 views: the last batch of an epoch was not full
        info = json.loads((path / "encoder.json").read_text())
        few = "info_nce" in path.name
        info["training"] |= {"images": 50_000, "steps": 200, "views": 2 if few else 5}
        info["training"]["batch_size"] = 320 if few else 128
        (path / "encoder.json").write_text(json.dumps(info))
    assert not any("same number of views" in note for note in compare_runs(paths).notes)


def test_groups_have_the_shortest_name_that_sets_them_apart(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", seed=0, score=0.5, lr=0.1, objective_options={"t_neg": 2.0})
    second = make_run(tmp_path / "b", seed=0, score=0.5, lr=0.3, objective_options={"t_neg": 2.0})
    third = make_run(tmp_path / "c", seed=0, score=0.5, lr=0.3, objective_options={"t_neg": 4.0}, views=3)
    assert [group.name for group in compare_runs([first, second]).groups] == ["lr=0.1", "lr=0.3"]
    assert [group.name for group in compare_runs([first, third]).groups] == ["t_neg=2.0", "t_neg=4.0"]
    groups = compare_runs([first, second, third]).groups
    assert len({group.name for group in groups}) == 3
    assert groups[2].differs == {"objective_options": {"t_neg": 4.0}, "views": 3, "lr": 0.3}
    (alone,) = compare_runs([first]).groups
    assert alone.name == "cacr"


def test_wrong_runs_are_named_together(tmp_path: Path) -> None:
    good = make_run(tmp_path / "good", seed=0, score=0.5)
    (tmp_path / "empty").mkdir()
    odd = make_run(tmp_path / "odd", seed=1, score=0.5, training={"steps": None})
    with pytest.raises(UserError) as caught:
        compare_runs([good, tmp_path / "empty", tmp_path / "missing", odd, good])
    for part in (
        "empty is not a run",
        "missing is not a run",
        "odd/encoder.json does not say",
        "given twice",
    ):
        assert part in str(caught.value)
    again = make_run(tmp_path / "again", seed=0, score=0.6)
    with pytest.raises(UserError, match="have the same settings and seed 0"):
        compare_runs([good, again])
    for path in (good / "evaluation").iterdir():
        path.unlink()
    with pytest.raises(UserError, match="has been evaluated: run `cacr evaluate"):
        compare_runs([good])


@pytest.mark.parametrize(
    ("images", "batch", "accumulate", "steps", "seen"),
    [(58, 16, 1, 8, 116), (49, 16, 1, 3, 48), (55, 16, 1, 7, 112), (58, 16, 2, 3, 90), (58, 16, 1, 5, 74)],
)
def test_views_seen_are_counted_batch_by_batch(
    images: int, batch: int, accumulate: int, steps: int, seen: int
) -> None:
    """Against the loader's own rule: a last batch of less than half of a batch is left out."""
    sizes = [min(batch, images - start) for start in range(0, images, batch)]
    sizes = [size for size in sizes if 2 * size >= batch]
    passed, step = 0, 0
    while step < steps:
        for begin in range(0, len(sizes), accumulate):
            passed += sum(sizes[begin : begin + accumulate])
            step += 1
            if step == steps:
                break
    training = {**TRAINING, "images": images, "batch_size": batch, "steps": steps}
    assert budget_of(training, accumulate, Path("encoder.json")).views_seen == 2 * passed == 2 * seen


def test_the_comparison_can_be_kept(tmp_path: Path) -> None:
    paths = [*_runs(tmp_path, "info_nce", [0.6, 0.7]), *_runs(tmp_path, "cacr", [0.8, 0.7])]
    out = tmp_path / "new" / "comparison.json"
    comparison = cacr.compare(runs=paths, out=out)
    stored = json.loads(out.read_text())
    assert stored["lines"][1]["difference"]["mean"] == comparison.lines[1].difference.mean
    assert stored["groups"][0]["runs"] == {"0": str(paths[0]), "1": str(paths[1])}
    with pytest.raises(UserError, match="exists already"):
        cacr.compare(runs=paths, out=out)
