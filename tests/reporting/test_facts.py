"""What the page says of a run, from runs of every kind: old, broken, interrupted, with everything."""

import json
import math
import shutil
from pathlib import Path

import pytest

from cacr.errors import UserError
from cacr.reporting import refresh_report, write_report
from cacr.reporting.facts import run_facts
from cacr.reporting.series import MOST_POINTS, charts_for, reference_of, series_of
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from tests.conftest import resolved


def test_figures_become_curves_with_gaps_and_at_most_so_many_points() -> None:
    rows = [{"step": n, "epoch": n / 10, "loss": float(n), "name": "text", "flag": True} for n in range(2001)]
    rows[0]["loss"] = math.nan
    rows += [{"step": 2001, "epoch": 201.0, "knn": 0.5}, {"step": 2002, "loss": 3.0}]
    series = series_of(rows)
    assert set(series) == {"loss", "knn"}
    loss = series["loss"]
    assert len(loss["x"]) == MOST_POINTS == len(loss["y"])
    assert loss["y"][0] is None and (loss["x"][-1], loss["y"][-1]) == (200.0, 2000.0)
    assert all(y == pytest.approx(10 * x) for x, y in zip(loss["x"][1:], loss["y"][1:], strict=True))
    assert series["knn"] == {"x": [201.0], "y": [0.5]}


def test_known_figures_have_their_chart_and_others_one_of_their_own() -> None:
    charts = charts_for([{"loss": {}, "entropy": {}, "max_entropy": {}}, {"something_new": {}, "lr": {}}])
    assert [chart["figure"] for chart in charts] == ["loss", "entropy", "lr", "something_new"]
    assert charts[1]["bound"] == "max_entropy"


def test_what_is_measured_once_or_said_by_another_curve_has_no_chart() -> None:
    charts = charts_for(
        [{"strong_rank": {}, "strong_retrieval": {}, "pixels_strong_rank": {}, "pixels_knn": {}}]
    )
    assert [chart["figure"] for chart in charts] == ["strong_rank"]


def _young(path: Path, recipe: str | None = None) -> Run:
    """A run that has only its settings."""
    folder = RunFolder(path)
    folder.create()
    folder.write_settings(resolved(recipe=recipe), {})
    return Run.open(path)


def test_a_verdict_is_shown_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    assert run_facts(_young(tmp_path))["verdict"] is None
    content = {
        "verdict": "collapsed to a point",
        "evidence": ["uniformity 0"],
        "advice": ["lower lr"],
        "step": 9,
    }
    content |= {"epoch": 2.0, "history": [{"step": 3, "epoch": 1.0, "verdict": "healthy"}]}
    (tmp_path / "verdict.json").write_text(json.dumps(content))
    assert run_facts(Run.open(tmp_path))["verdict"] == {
        "verdict": "collapsed to a point",
        "evidence": ["uniformity 0"],
        "advice": ["lower lr"],
        "epoch": 2.0,
        "history": [{"epoch": 1.0, "verdict": "healthy"}],
    }
    (tmp_path / "verdict.json").write_text('{"verdict": "x", "history": [3]}')
    with pytest.raises(UserError, match=r"verdict\.json is damaged"):
        run_facts(Run.open(tmp_path))


def test_a_reference_curve_is_read(tmp_path: Path) -> None:
    for recipe in (None, "digits-cacr-k4"):  # what lies in the run folder was put there by somebody
        run = _young(tmp_path / str(recipe), recipe)
        assert recipe or reference_of(run) is None
        run.folder.reference.write_text('{"name": "mine", "figures": {"knn": [[1, 0.5], [2, 0.6]]}}')
        assert reference_of(Run.open(run.path)) == {
            "name": "mine",
            "series": {"knn": {"x": [1, 2], "y": [0.5, 0.6]}},
        }
        run.folder.reference.write_text('{"name": "mine", "figures": {"knn": [1, 2]}}')
        with pytest.raises(UserError, match=r"reference\.json is damaged: .*or be removed"):
            reference_of(Run.open(run.path))


def test_a_recipe_brings_its_curve(tmp_path: Path) -> None:
    found = reference_of(_young(tmp_path / "a", "digits-cacr-k4"))
    assert found is not None and found["name"].startswith(
        "digits-cacr-k4, mean of 3 seeds (2,200 images, 8 epochs"
    )
    assert found["series"].keys() >= {"loss", "attraction", "repulsion", "knn", "entropy", "effective_rank"}
    assert found["series"]["knn"]["x"] == list(range(9)) == found["series"]["entropy"]["x"]
    assert found["series"]["loss"]["x"][-1] == 8
    for recipe in ("cifar10-cl", "../secret"):
        assert reference_of(_young(tmp_path / "b", recipe)) is None


def test_facts_of_a_run(trained: Path) -> None:
    facts = run_facts(Run.open(trained))
    assert facts["title"].startswith("cacr on classes") and facts["name"] == "trained"
    assert dict(facts["tiles"])["steps"] == "10" and dict(facts["tiles"])["epochs"] == "2"
    budget = dict(facts["budget"])
    assert budget["images"] == "40" and budget["views seen"] == str(2 * 40 * 3)
    assert facts["settings"]["batch_size"] == "8" and facts["settings"]["imbalance_seed"] == "2021"


def test_the_views_of_all_accumulated_batches_were_seen(trained: Path, tmp_path: Path) -> None:
    """Five batches of eight in an epoch are two steps of three batches at most, the second one smaller."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    config = (run / "config.yaml").read_text()
    assert "  accumulate: 1\n" in config
    (run / "config.yaml").write_text(config.replace("  accumulate: 1\n", "  accumulate: 3\n"))
    described = json.loads((run / "encoder.json").read_text())
    for steps, seen in ((1, 3 * 8 * 3), (4, 2 * 40 * 3)):
        described["training"]["steps"] = steps
        (run / "encoder.json").write_text(json.dumps(described))
        assert dict(run_facts(Run.open(run))["budget"])["views seen"] == str(seen)
    del described["training"]["views"]
    (run / "encoder.json").write_text(json.dumps(described))
    assert "views seen" not in dict(run_facts(Run.open(run))["budget"])


def test_a_run_that_has_made_no_step_gets_a_page(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "young"
    run.mkdir()
    shutil.copy(trained / "config.yaml", run)
    page, missing = write_report([run])
    assert "encoder.safetensors" in missing and page == run / "report.html"
    assert "none yet" in page.read_text(encoding="utf-8")


def test_images_stay_on_the_page_while_the_encoder_is_the_same(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    write_report([run], points=20)
    assert '"count":20' in (run / "report.html").read_text(encoding="utf-8")
    refresh_report(run)
    assert '"count":20' in (run / "report.html").read_text(encoding="utf-8")
    weights = run / "encoder.safetensors"
    weights.write_bytes(weights.read_bytes() + b" ")
    refresh_report(run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert '"count":20' not in page and "cacr report" in page


def test_wrong_places_are_refused_before_work(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="add --out"):
        write_report([trained, trained])
    with pytest.raises(UserError, match="is a folder"):
        write_report([trained], out=tmp_path)
    (tmp_path / "thesis.html").write_text("years of work")
    with pytest.raises(UserError, match="is not a report"):
        write_report([trained], out=tmp_path / "thesis.html")
    assert (tmp_path / "thesis.html").read_text() == "years of work"
    with pytest.raises(UserError, match="not a run folder"):
        write_report([tmp_path])
    with pytest.raises(UserError, match="no folder"):
        write_report([trained], data=str(tmp_path / "gone"))


def test_data_that_is_gone_leaves_a_page_without_images(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("data: ", "data: /gone", 1))
    page, missing = write_report([run])
    assert "/gone" in missing and "no images" in page.read_text(encoding="utf-8")
