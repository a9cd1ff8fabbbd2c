"""What an observed run leaves in its folder, and when it is stopped."""

import json
import math
from pathlib import Path

import pytest
import torch

from cacr import cli
from cacr.api import pretrain
from cacr.diagnostics.embedding import at_rest
from cacr.diagnostics.snapshots import is_due
from cacr.diagnostics.trivial import trivial_loss
from cacr.diagnostics.verdict import judge
from cacr.runs.run import Run
from tests.conftest import TINY
from tests.data.making import encoded, write_shard
from tests.frameworks.making import make_framework

pytestmark = pytest.mark.trains

FIGURES = {
    "entropy",
    "max_entropy",
    "mutual_information",
    "alignment",
    "uniformity",
    "effective_rank",
    "positive_distance",
    "positive_distance_std",
    "negative_distance",
    "negative_distance_std",
    "positive_entropy",
    "reversed_forces",
    "feature_rank",
    "feature_rank_share",
    "feature_spread",
    "trivial_loss",
}
OF_FEATURES = {name for name in FIGURES if name.startswith("feature_")} | {"knn"}
"""Of so few images no reader can be fitted, and nothing is said of neighbours (see ``test_runs.py``)."""


@pytest.fixture(scope="module")
def observed(classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 45 steps on 40 images, measured on the 20 of the test part every third epoch."""
    out = tmp_path_factory.mktemp("observed") / "run"
    start = {"head": "linear", "first_layer": "random", "weights": "paper", "lr": 0.03}
    settings = {**TINY, **start, "epochs": 9, "measure_every_epochs": 3, "log_every_steps": 2}
    pretrain(data=classes, out=out, **settings)
    return out


def test_a_run_shorter_than_an_epoch_is_measured_by_its_steps(classes: Path, tmp_path: Path) -> None:
    settings = {**TINY, "max_steps": 5, "measure_every_epochs": 3, "measure_every_steps": 2}
    pretrain(data=classes, out=tmp_path / "run", **settings)
    measured = [row["step"] for row in Run.open(tmp_path / "run").rows if "effective_rank" in row]
    assert measured == [0, 2, 4, 5]


def test_the_loss_of_a_point_is_that_of_equal_scores_for_all_prototypes() -> None:
    method = make_framework("prototypes", "swav", prototypes=6, queue_size=0)
    assert trivial_loss(method, images=8, views=2) == pytest.approx(math.log(6), abs=1e-6)
    queued = make_framework("prototypes", "swav", prototypes=6, queue_size=8)
    assert trivial_loss(queued, images=8, views=2) is None  # the others can be those of the queue
    assert (
        trivial_loss(make_framework("momentum", "byol"), images=8, views=2) is None
    )  # a point is its optimum


def test_measures_are_logged_with_the_training(observed: Path) -> None:
    rows = Run.open(observed).rows
    measured = [row for row in rows if "effective_rank" in row]
    assert [row["step"] for row in measured] == [0, 15, 30, 45]
    assert [row["epoch"] for row in measured] == [0, 3, 6, 9]
    for row in measured:
        assert row.keys() >= FIGURES | OF_FEATURES
    assert all("loss" in row for row in measured[1:])
    assert {row["trivial_loss"] for row in measured} == {0.0}  # CACR's: nothing attracts and nothing repels
    assert not any("knn" in row for row in rows if row not in measured)


def test_pixels_are_measured_once_before_the_first_step(observed: Path) -> None:
    first, *later = Run.open(observed).rows
    of_pixels = {name for name in first if name.startswith("pixels_")}
    assert of_pixels == {f"pixels_{name}" for name in OF_FEATURES}
    assert not any(name.startswith("pixels_") for row in later for name in row)


def test_a_verdict_is_stored_with_its_history(observed: Path) -> None:
    verdict = json.loads((observed / "verdict.json").read_text())
    assert verdict.keys() == {"verdict", "evidence", "advice", "step", "epoch", "history"}
    assert verdict["step"] == 45 and verdict["epoch"] == 9
    assert [past["step"] for past in verdict["history"]] == [30, 45]  # nothing is said about fewer steps
    told = judge(Run.open(observed).rows, images=20, dim=128)
    assert told is not None and verdict["evidence"] == told.evidence
    assert verdict["history"][-1]["verdict"] == verdict["verdict"] == told.verdict


def test_everything_logged_is_in_tensorboard_when_asked(photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    pretrain(data=photos, out=tmp_path / "run", **TINY, epochs=2, log_every_steps=2, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    logged: dict[str, dict[int, float]] = {}
    for row in Run.open(tmp_path / "run").rows:
        for name, value in row.items():
            if name not in ("step", "epoch"):
                logged.setdefault(name, {})[row["step"]] = value
    assert logged.keys() >= FIGURES | {"loss"}
    assert set(events.Tags()["scalars"]) == logged.keys()
    for name, values in logged.items():
        shown = {event.step: event.value for event in events.Scalars(name)}
        assert shown == pytest.approx(values, rel=1e-6), name


def test_a_stream_is_measured_on_its_last_images(tmp_path: Path) -> None:
    pytest.importorskip("webdataset")
    for shard in range(2):
        files = {f"{n:03}.png": encoded(n) for n in range(12 * shard, 12 * shard + 12)}
        write_shard(tmp_path / f"{shard}.tar", files)
    out = tmp_path / "run"
    outcome = pretrain(data=f"wds:{tmp_path}/{{0..1}}.tar", out=out, **TINY, epochs=2, held_out=6)
    assert outcome.step == 2 * 2  # 18 images in batches of 8; two are left over
    stored = json.loads((out / "held_out.json").read_text())
    assert stored == {"from": "split", "images": [*range(18, 24)], "not_trained_on": [*range(18, 24)]}
    assert Run.open(out).pictures.first.shape[0] == 6
    assert Run.open(out).rows[-1].keys() >= FIGURES


def test_which_images_and_how_is_stored(observed: Path) -> None:
    assert json.loads((observed / "held_out.json").read_text())["from"] == "test"
    how = json.loads((observed / "diagnostics" / "how.json").read_text())
    assert how["images"] == 20 and how["views"] == 5 and how["every_epochs"] == 3
    assert how["entropies"] == {"minibatch": 128, "t_pos": 1.0, "t_neg": 2.0}


def test_one_batch_is_kept_at_a_few_epochs(observed: Path) -> None:
    run = Run.open(observed)
    snapshots = run.snapshots
    assert [(s.step, s.epoch) for s in snapshots] == [(0, 0), (15, 3), (45, 9)]
    for snapshot in snapshots:
        assert snapshot.z.shape == (5, 20, 128)
        torch.testing.assert_close(snapshot.z.norm(dim=-1), torch.ones(5, 20), atol=1e-2, rtol=0)
    far = (snapshots[-1].z[0, :, None] - snapshots[-1].z[0]).square().sum(-1)
    last = run.rows[-1]
    assert far.sum() / (20 * 19) == pytest.approx(last["negative_distance"], rel=0.01)
    pictures = run.pictures
    assert pictures.first.shape == (20, 3, 32, 32) and pictures.queries.shape == (5, 8, 3, 32, 32)
    assert torch.equal(pictures.queries[0], pictures.first[:8])
    assert pictures.first.float().std() > 20


def test_the_last_step_of_a_run_cut_short_is_kept_and_one_positive_shows_four(
    photos: Path, tmp_path: Path
) -> None:
    """It ends after 4/3 epochs, which rows round to less than that."""
    batch = len(list(photos.iterdir())) // 3
    settings = {**TINY, "views": 2, "epochs": 1000, "max_steps": 4, "measure_every_steps": 1}
    pretrain(data=photos, out=tmp_path / "run", **{**settings, "batch_size": batch})
    run = Run.open(tmp_path / "run")
    assert run.snapshots[-1].step == 4 and run.snapshots[-1].epoch == 1.3333
    assert all(len(snapshot.z) == 5 for snapshot in run.snapshots)
    assert run.pictures is not None and run.pictures.originals is not None
    assert run.pictures.originals.shape == run.pictures.first.shape


@pytest.mark.parametrize(
    ("epochs", "every", "expected"),
    [
        (200, 1, [0, 1, 20, 60, 200]),  # the paper shows 1, 20 and 200
        (200, 3, [0, 3, 21, 60, 200]),
        (10, 1, [0, 1, 3, 10]),
        (3, 1, [0, 1, 3]),
        (1, 1, [0, 1]),
    ],
)
def test_a_few_epochs_of_a_run_are_kept(epochs: int, every: int, expected: list[int]) -> None:
    """Whatever is measured first after an epoch that is wanted; epochs are measured every so many, and the last."""
    kept: list[float] = []
    for epoch in (*range(0, epochs, every), epochs):
        if is_due(epoch, epochs, kept):
            kept.append(epoch)
    assert kept == expected


def test_at_rest_gives_every_part_its_mode_back() -> None:
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Dropout())
    model[1].eval()
    with at_rest(model):
        assert not model.training and not model[0].training
    assert model.training and model[0].training and not model[1].training


@pytest.mark.parametrize(("choice", "code", "steps"), [("stop", 2, 35), ("warn", 0, 60)])
def test_a_collapse_is_told_and_can_stop_the_run(
    choice: str,
    code: int,
    steps: int,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without repulsion everything becomes one point; the second measurement that shows it is at step 35 or so."""
    out = tmp_path / "run"
    settings = {
        **TINY,
        "head": "linear",
        "repulsion": 0,
        "lr": 1.0,
        "epochs": 15,
        "measure_every_epochs": 1,
        "seed": 1,
    }
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    monkeypatch.setattr(
        "sys.argv", ["cacr", "pretrain", str(photos), "--out", str(out), "--on-collapse", choice, *flags]
    )
    with pytest.raises(SystemExit) as caught:
        cli.main()
    text = " ".join(capsys.readouterr().out.split())
    assert (caught.value.code or 0) == code
    assert "collapsed to a point" in text and "try:" in text
    # told when it changes and at the end, not at every measurement
    assert text.count("verdict at epoch") == (1 if choice == "stop" else 2)
    verdict = json.loads((out / "verdict.json").read_text())
    assert verdict["verdict"] == "collapsed to a point"
    assert (verdict["step"] < steps) if choice == "stop" else (verdict["step"] == steps)
    assert ("--resume" in text) is (choice == "stop")
