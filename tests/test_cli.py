"""The commands as a user types them: what they print, what they leave, and how they refuse."""

import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cacr import cli
from cacr.commands import bench
from cacr.runs.folder import RunFolder
from cacr.runs.verdict import Verdict, write_verdict
from tests.conftest import TINY, Run, files_of, refused, save_images

SHORT = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]


@pytest.mark.trains
def test_pretrain_evaluate_embed_report(run: Run, classes: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, text = run("pretrain", classes, "--out", out, "--epochs", 1, *SHORT)
    assert code == 0
    for fact in (
        "40 images in 2 classes",
        "3 per image",
        "7 per query",
        "parameters",
        "memory",
        "time",
    ):
        assert fact in text, fact
    assert {"config.yaml", "metrics.jsonl", "encoder.safetensors", "encoder.json", "report.html"} <= {
        path.name for path in out.iterdir()
    }
    code, text = run("evaluate", out, "--data", classes, "--protocol", "knn,linear", "--set", "k=3")
    assert code == 0 and "knn" in text and "linear" in text and "%" in text
    assert "the same network untrained" in text and "the raw pixels" in text
    results = [json.loads(path.read_text()) for path in (out / "evaluation").glob("knn-*.json")]
    (stored,) = [result for result in results if result["subject"] == "encoder"]
    assert stored["settings"]["k"] == 3
    assert stored["training"]["images"] == 40 and stored["training"]["views"] == 3
    page = (out / "report.html").read_text()
    assert f"{100 * stored['score']:.1f} %" in page and '"count":40' in page

    code, text = run("embed", out, classes, "--out", tmp_path / "features.npz")
    assert code == 0 and "40 images of the pretrain part" in text and "sub-folders" in text
    features = np.load(tmp_path / "features.npz", allow_pickle=False)
    assert features["features"].shape[0] == 40 and np.isfinite(features["features"]).all()


@pytest.mark.trains
def test_a_folder_of_odd_images_trains_on_the_good_ones(run: Run, tmp_path: Path) -> None:
    folder, out = tmp_path / "odd", tmp_path / "run"
    good = save_images(folder / "deep" / "er", 20, size=60, suffix=".jpg")
    Image.new("L", (50, 41), 90).save(folder / "grey.png")
    Image.new("RGBA", (33, 70), (9, 200, 30, 90)).save(folder / "alpha.webp")
    Image.new("CMYK", (64, 64), (9, 200, 30, 90)).save(folder / "cmyk.jpg")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "cut.jpg").write_bytes(good[0].read_bytes()[:400])
    (folder / "notes.txt").write_text("not an image")
    code, text = run("pretrain", folder, "--out", out, *SHORT, "--set", "max_steps=2", "--set", "workers=1")
    assert code == 0
    assert "23 images, no labels" in text and "they cannot be read: 2 (listed in" in text
    listed = (out / "unreadable.txt").read_text()
    assert "empty.jpg" in listed and "cut.jpg" in listed and len(listed.splitlines()) == 2
    refused(run, ["evaluate", out, "--data", folder], "no labels")


@pytest.mark.trains
def test_too_many_unreadable_images_stop_the_run_unless_told_otherwise(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "bad"
    save_images(folder, 12)
    for number in range(4):
        (folder / f"broken{number}.png").write_bytes(b"\x89PNG")
    out = tmp_path / "run"
    refused(run, ["pretrain", folder, "--out", out, *SHORT], "4 of 16 images cannot be read", "broken0.png")
    assert not out.exists()
    code, _ = run(
        "pretrain", folder, "--out", out, *SHORT, "--set", "max_unreadable=0.5", "--set", "max_steps=1"
    )
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["{missing}"], ["there is no folder"]),
        (["cifar1000"], ["did you mean cifar10"]),
        (["{empty}"], ["has no images"]),
        (["{photos}", "--batch-size", "64"], ["28", "64", "--batch-size"]),
        (["{photos}", "--views", "1"], ["views must be greater than or equal to 2"]),
        (["{photos}", "--batch-size", "1"], ["batch_size must be greater than or equal to 2"]),
        (["{photos}", "--epochs", "-1"], ["epochs must be greater than or equal to 1"]),
        (["{photos}", "--set", "t_neg=-1"], ["t_neg"]),
        (["{photos}", "--set", "t_neg=near"], ["t_neg must be a valid number"]),
        (["{photos}", "--set", "objective_options=5"], ["objective_options must be"]),
        (["{photos}", "--lr", "inf"], ["lr must be a finite number"]),
        (
            ["{photos}", "--schedule", "multistep", "--set", "milestones=[155, 170]"],
            ["milestones must be less"],
        ),
        (
            ["{photos}", "--set", "out=elsewhere", "--set", "resume=true"],
            ["no setting 'out'", "no setting 'resume'"],
        ),
        (["{photos}", "--encoder", "resnet81"], ["no encoder 'resnet81'", "did you mean"]),
        (["{photos}", "--encoder", "resnet18", "--width", "0.5"], ["resnet18 does not support width"]),
        (["{photos}", "--set", "objective=infonce"], ["did you mean info_nce"]),
        (["{photos}", "--set", "objective=byol"], ["objective byol", "collapses"]),
        (["{photos}", "--set", "epocs=3", "--set", "vews=2"], ["2 wrong settings", "epochs", "views"]),
        (["{photos}", "--set", "epochs"], ["--set takes name=value"]),
        (["{photos}", "--config", "{missing}"], ["there is no file"]),
        (["{photos}", "--init", "{missing}"], ["no run folder or weights file"]),
        (["{photos}", "--init", "timm", "--encoder", "resnet18"], ["--download"]),
        (["{photos}", "--imbalance", "linear"], ["labels"]),
        (["stl10", "--data-root", "{empty}"], ["--download"]),
    ],
)
def test_bad_input_is_told_and_leaves_nothing(
    run: Run, photos: Path, tmp_path: Path, arguments: list[str], parts: list[str]
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"missing": tmp_path / "missing", "empty": tmp_path / "empty", "photos": photos}
    out = tmp_path / "run"
    refused(run, ["pretrain", *(a.format(**places) for a in arguments), "--out", out], *parts)
    assert not out.exists()


def test_an_out_folder_with_something_in_it_is_left_alone(
    run: Run, photos: Path, trained: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    for out, part in ((foreign, "not empty"), (trained, "already has a run")):
        before = files_of(out)
        refused(run, ["pretrain", photos, "--out", out, *SHORT], part)
        assert files_of(out) == before


@pytest.mark.trains
def test_nan_stops_and_keeps_the_last_good_checkpoint(
    run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cacr.losses import CACRLoss
    from cacr.training.building.checkpoints import list_checkpoints
    from cacr.training.loop import loop

    step, parts, number = loop.take_step, CACRLoss.parts, 0

    def counted(job: Any, position: Any, *others: Any) -> float:
        nonlocal number
        number = position.step + 1
        return step(job, position, *others)

    def poisoned(self: CACRLoss, *arguments: Any, **options: Any) -> dict[str, torch.Tensor]:
        factor = math.nan if number == 4 else 1.0
        return {name: value * factor for name, value in parts(self, *arguments, **options).items()}

    monkeypatch.setattr(loop, "take_step", counted)
    monkeypatch.setattr(CACRLoss, "parts", poisoned)
    out = tmp_path / "run"
    arguments = ["pretrain", photos, "--out", out, *SHORT, "--epochs", 3, "--set", "checkpoint_every_steps=1"]
    refused(run, arguments, "at step 4 the loss is nan", "lower --lr")
    assert [step for step, _ in list_checkpoints(out / "checkpoints")] == [2, 3]


@pytest.mark.trains
def test_a_full_disk_is_told(run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    arguments = ["pretrain", photos, "--out", tmp_path / "run", *SHORT, "--set", "max_steps=1"]
    refused(run, arguments, "is the disk full?")


def test_resuming_a_finished_run_says_so(run: Run, trained: Path, tmp_path: Path) -> None:
    finished = shutil.copytree(trained, tmp_path / "finished")
    code, text = run("pretrain", "--out", finished, "--resume")
    assert code == 0 and "already finished" in text


def test_wrong_evaluations_are_refused(run: Run, trained: Path, classes: Path, tmp_path: Path) -> None:
    refused(run, ["evaluate", trained, "--data", classes, "--protocol", "knm"], "did you mean knn")
    refused(run, ["evaluate", tmp_path, "--data", classes], "encoder.safetensors")
    refused(
        run,
        ["evaluate", trained, "--data", classes, "--set", "kk=3", "--set", "lables_per_class=1"],
        "2 wrong settings",
    )
    newer = tmp_path / "newer"
    shutil.copytree(trained, newer)
    (newer / "encoder.json").write_text(
        (newer / "encoder.json").read_text().replace('"format": 1', '"format": 99')
    )
    refused(run, ["evaluate", newer, "--data", classes], "format 99")


@pytest.mark.parametrize("kind", ["methods", "objectives", "frameworks", "protocols"])
def test_defaults_are_listed_as_one_types_them(run: Run, kind: str) -> None:
    code, text = run("list", kind)
    assert code == 0 and not re.search(r"=(None|True|False|\()", text)


@pytest.mark.parametrize("name", ["pretrain", "evaluate", "embed", "compare", "report", "reproduce"])
def test_help_has_no_type_names_of_python(run: Run, name: str) -> None:
    code, text = run(name, "--help")
    assert code == 0 and not re.search(r"<(str|Path|int|float|bool|list\[)", text)


def test_list_names_everything(run: Run) -> None:
    code, text = run("list")
    assert code == 0
    for name in (
        "cacr",
        "info_nce",
        "in_batch",
        "small_alexnet",
        "cifar10",
        "moco-v2",
        "knn",
        "linear-paper",
        "clip_grad",
        "labels_per_class",
        "end_to_end",
    ):
        assert name in text


def test_doctor_examines_machine_data_and_run(run: Run, photos: Path, trained: Path, tmp_path: Path) -> None:
    code, text = run("doctor", photos)
    assert code == 0
    for part in (
        "torch",
        "bf16",
        "28 images",
        "memory for a run with default settings: about",
        "bottleneck",
    ):
        assert part in text, part
    code, text = run("doctor", trained)
    assert code == 0 and "complete" in text and "wrong" not in text
    assert "there is no verdict" in text
    assert "memory needed: about" in text
    damaged = tmp_path / "damaged"
    shutil.copytree(trained, damaged)
    for path in (damaged / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    code, text = run("doctor", damaged)
    assert code == 0 and "damaged" in text and "no problems found" not in text


@pytest.mark.parametrize(("name", "fine"), [("healthy", True), ("not sure yet", False), ("diverging", False)])
def test_doctor_calls_only_a_healthy_run_fine(
    run: Run, trained: Path, tmp_path: Path, name: Any, fine: bool
) -> None:
    told = Path(shutil.copytree(trained, tmp_path / "told"))
    write_verdict(RunFolder(told).verdict, Verdict(name, ["a figure"], ["look again"], 10, 2.0))
    code, text = run("doctor", told)
    assert code == 0 and f"verdict at epoch 2: {name} a figure try: look again" in text
    assert ("no problems found" in text) is fine


def test_views_draws_a_sheet(run: Run, photos: Path, tmp_path: Path) -> None:
    code, _ = run("views", photos, "--out", tmp_path / "sheet.png", "--views", 3, "--number", 4)
    assert code == 0
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.width > 3 * 32 and sheet.height > 4 * 32
    before = (tmp_path / "sheet.png").read_bytes()
    refused(run, ["views", photos, "--out", tmp_path / "sheet.png"], "sheet.png exists already")
    assert (tmp_path / "sheet.png").read_bytes() == before
    refused(run, ["views", photos, "--out", tmp_path / "b.png", "--preset", "cifra"], "did you mean cifar")
    refused(run, ["views", photos, "--out", tmp_path / "b.html"], "must end in .png")
    refused(run, ["views", photos, "--out", tmp_path / "b.png", "--seed", 2**64], "seed must be less")
    refused(run, ["views", photos, "--out", tmp_path / "b.png", "--views", 65], "views must be less")
    refused(run, ["views", photos, "--out", tmp_path / "b.png", "--set", "size=4000"], "no setting 'size'")
    large = ["--views", 64, "--set", "image_size=1024"]
    refused(run, ["views", photos, "--out", tmp_path / "b.png", *large], "million pixels")
    refused(run, ["views", "--out", tmp_path / "b.png"], "data is missing")
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]


def test_bench_runs_a_script_or_names_the_nearest(run: Run) -> None:
    code, text = run("bench", "end_to_end", "--", "--help")
    assert code == 0 and "usage: end_to_end.py" in text
    refused(run, ["bench", "losess"], "did you mean losses")


def test_bench_alone_lists_and_runs_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "run_benchmark", lambda *_: pytest.fail("a benchmark was started"))
    code, text = run("bench")
    assert code == 0 and "cacr bench NAME -- --help" in text
    for name, summary in bench.benchmark_summaries().items():
        assert name in text and summary in text


def test_a_home_folder_is_found_wherever_a_path_is_given(
    run: Run, photos: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell leaves the ~ of ``--out=~/runs`` as it is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(trained, tmp_path / "run")
    assert run("embed", "~/run", photos, "--out=~/features.npz")[0] == 0
    assert (
        run("search", "~/run", photos / "image000.png", "--data", photos, "--features=~/features.npz")[0] == 0
    )
    assert run("report", "~/run", "--out=~/page.html")[0] == 0
    assert {"run", "features.npz", "page.html"} == {path.name for path in tmp_path.iterdir()}
    refused(run, ["embed", "~nobody-of-this-name/run", photos, "--out", tmp_path / "f.npz"], "no such user")


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from cacr.errors import UserError

    monkeypatch.setattr(sys, "argv", ["cacr", "--debug", "report", str(tmp_path)])
    with pytest.raises(UserError):
        cli.main()


@pytest.mark.trains
def test_weights_that_are_not_finite_are_never_saved(run: Run, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["pretrain", photos, "--out", out, *SHORT, "--lr", "1e30", "--schedule", "constant"]
    refused(run, [*arguments, "--set", "max_steps=3"], "not finite", "no checkpoint had been written yet")
    assert not (out / "encoder.safetensors").exists()


@pytest.mark.trains
def test_a_run_can_be_repeated_from_its_own_settings(run: Run, trained: Path, tmp_path: Path) -> None:
    code, _ = run("pretrain", "--config", trained / "config.yaml", "--out", tmp_path / "again")
    assert code == 0
    first, again = ((folder / "encoder.safetensors").read_bytes() for folder in (trained, tmp_path / "again"))
    assert first == again


@pytest.mark.trains
def test_a_number_without_a_point_is_a_number(run: Run, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, text = run("pretrain", photos, "--out", out, *SHORT, "--set", "t_pos=1e-3", "--set", "max_steps=1")
    assert code == 0 and "t_pos=0.001" in text
