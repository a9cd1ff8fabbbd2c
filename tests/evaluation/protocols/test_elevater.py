"""Few labels and all labels by the ELEVATER protocol."""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression

from cacr.config import EvaluateSettings
from cacr.data import ArraySource, open_source
from cacr.encoders import EncoderInfo, build_encoder, load_encoder
from cacr.errors import UserError
from cacr.evaluation import evaluate_run, transfer_sets
from cacr.evaluation.data import benchmark_view
from cacr.evaluation.data.benchmark_view import as_benchmark
from cacr.evaluation.data.labelled import LabelledData, open_labelled
from cacr.evaluation.data.sets import known_set
from cacr.evaluation.data.splits import Indices
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine import network_learner
from cacr.evaluation.engine.linear_learner import LinearLearner
from cacr.evaluation.engine.probes import EPSILON
from cacr.evaluation.engine.tuning import Setting
from cacr.evaluation.protocols.fewshot import FewShotSettings, few_labels
from cacr.evaluation.protocols.transfer import TransferSettings
from cacr.evaluation.registry import PROTOCOLS
from cacr.evaluation.results.metrics import METRICS
from cacr.features.encode import ImageLoader, centre_view
from cacr.features.machine import Machine
from cacr.views import Augmentation
from cacr.views.pixels import as_bytes, unnormalised
from tests.evaluation.conftest import write_images

pytestmark = pytest.mark.trains

DECAY = 0.1
"""A weight decay with which a few thousand steps reach the minimum."""

fewshot, transfer = PROTOCOLS["fewshot"], PROTOCOLS["transfer"]


@pytest.fixture(scope="module")
def task(untrained: Path) -> Task:
    """Three classes of noisy colours, 12 training and 20 test images of each."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 160, (96, 3, 18, 18), generator=generator, dtype=torch.uint8)
    labels = torch.arange(96) % 3
    pixels[torch.arange(96), labels] += 40
    train = ArraySource("train", pixels[:36], labels=labels[:36].numpy(), class_names=["a", "b", "c"])
    test = ArraySource("test", pixels[36:], labels=labels[36:].numpy())
    return Task(load_encoder(untrained), LabelledData(train, test, "by hand", 3), seed=4)


def test_few_labels_are_drawn_three_times_and_the_last_epoch_is_the_score(task: Task) -> None:
    score = fewshot(task, FewShotSettings(epochs=3, final_epochs=6))
    details = score.details
    assert score.value == pytest.approx(np.mean(details["scores"])) and len(details["scores"]) == 3
    assert score.spread == pytest.approx(np.std(details["scores"], ddof=1))
    assert details["last"] == details["scores"]
    assert all(best >= last for best, last in zip(details["best"], details["last"], strict=True))
    assert all(64 <= tried <= 90 for tried in details["settings_tried"])
    assert score.notes == ()
    assert fewshot(task, FewShotSettings(epochs=3, final_epochs=6)) == score


def test_no_test_label_is_read_before_the_final_score(task: Task) -> None:
    """With every class renamed twice over, each prediction is right once: the scores of one choice add up to 1."""
    for protocol, settings in (
        (fewshot, FewShotSettings(epochs=2, final_epochs=4)),
        (transfer, TransferSettings(epochs=2, final_epochs=4)),
    ):
        scores = []
        for shift in range(3):
            labels = (task.data.test_labels + shift) % 3
            test = ArraySource("test", task.data.test.images, labels=labels)
            scores.append(protocol(Task(task.encoder, replace(task.data, test=test), seed=4), settings))
        for choice in ("lr", "weight_decay", "validation", "settings_tried"):
            assert scores[0].details[choice] == scores[1].details[choice] == scores[2].details[choice]
        assert sum(score.value for score in scores) == pytest.approx(1)


class _Watched(LinearLearner):
    """Remembers what it was asked for."""

    asked: list[tuple[str, Indices, Indices | None, int]]

    def validate(
        self, settings: Sequence[Setting], train: Indices, judge: Indices, epochs: int, seed: int
    ) -> list[list[float]]:
        self.asked.append(("search", train, judge, epochs))
        return super().validate(settings, train, judge, epochs, seed)

    def final(self, setting: Setting, train: Indices, epochs: int, seed: int) -> list[float]:
        self.asked.append(("final", train, None, epochs))
        return super().final(setting, train, epochs, seed)


def test_the_search_sees_four_fifths_and_the_final_training_all(task: Task) -> None:
    _Watched.asked = []
    few_labels(task, FewShotSettings(draws=1, search="quick"), _Watched)
    (search, train, judge, epochs), (final, everything, _, final_epochs) = _Watched.asked
    assert (search, epochs, final, final_epochs) == ("search", 10, "final", 50)
    labels = task.data.train_labels
    assert np.bincount(labels[train]).tolist() == [4, 4, 4]
    assert judge is not None and np.bincount(labels[judge]).tolist() == [1, 1, 1]
    assert sorted([*train, *judge]) == sorted(everything)


class _Scripted(LinearLearner):
    """The first of the settings is good at first, the last one in the end."""

    def validate(
        self, settings: Sequence[Setting], train: Indices, judge: Indices, epochs: int, seed: int
    ) -> list[list[float]]:
        return [[0.9, 0.1], *([0.2, 0.2] for _ in settings[2:]), [0.1, 0.8]]


def test_a_setting_counts_by_its_last_epoch_or_as_in_the_benchmark_by_its_best(task: Task) -> None:
    chosen = {}
    for judge in ("last", "best"):
        settings = FewShotSettings(draws=1, search="quick", final_epochs=1, judge=judge)
        details = few_labels(task, settings, _Scripted).details
        (chosen[judge],) = zip(details["lr"], details["weight_decay"], details["validation"], strict=True)
    assert chosen["last"] == pytest.approx((0.1, 0.01, 0.8))
    assert chosen["best"] == pytest.approx((0.001, 1e-6, 0.9))


class _Remembering(LinearLearner):
    """Keeps the scores that it judges."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, np.arange(len(task.data.train)), lambda: None)
        judge, self.scores = self._metric, torch.empty(0)

        def remember(scores: torch.Tensor, labels: torch.Tensor) -> float:
            self.scores = scores.clone()
            return judge(scores, labels)

        self._metric = remember


def test_the_last_classifier_is_that_of_logistic_regression(task: Task) -> None:
    """The final training, run until it has converged: the same minimum, so the same probabilities."""
    learner = _Remembering(task)
    learner.final(Setting(0.01, DECAY), np.arange(36), 2000, seed=4)
    mean, variance = task.train.values.mean(dim=0), task.train.values.var(dim=0, correction=0)
    scale = (variance + EPSILON * variance.mean()).sqrt()
    train, test = ((part.values.double() - mean) / scale for part in (task.train, task.test))
    # scikit-learn leaves the intercept undecayed: a constant feature in its place is decayed like the weights
    train, test = (torch.cat([part, torch.ones(len(part), 1)], dim=1) for part in (train, test))
    model = LogisticRegression(C=1 / (DECAY * 36), fit_intercept=False, tol=1e-8, max_iter=10_000)
    expected = model.fit(train, task.train.labels).predict_proba(test)
    assert np.abs(learner.scores.softmax(dim=1).numpy() - expected).max() < 1e-3
    assert expected.max() > 0.9  # both have learned something


def test_a_narrowed_search_says_so(task: Task) -> None:
    pytest.importorskip("optuna")
    quick = fewshot(task, FewShotSettings(search="quick", epochs=1, final_epochs=1, draws=1))
    assert quick.details["settings_tried"] == [9] and "instead of the protocol's" in quick.notes[0]
    drawn = transfer(task, TransferSettings(search="optuna", trials=4, epochs=1, final_epochs=1))
    assert drawn.details["settings_tried"] == 4 and "optuna tried 4" in drawn.notes[0]


def test_only_the_drawn_images_are_encoded(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    real = Task.encode

    def remember(self: Task, source: ArraySource, labels: np.ndarray) -> object:
        encoded.append(len(source))
        return real(self, source, labels)

    monkeypatch.setattr(Task, "encode", remember)
    fresh = Task(task.encoder, task.data, seed=4)
    fewshot(fresh, FewShotSettings(labels_per_class=2, draws=1, search="quick", epochs=1, final_epochs=1))
    assert encoded == [6, 60]


def test_images_in_several_folders_show_several_classes(run: Path, tmp_path: Path) -> None:
    data = tmp_path / "voc2007"
    for part, count in (("train", 8), ("test", 6)):
        write_images(data / part, per_class=count, seed=count)
        for path in sorted((data / part).glob("*/*.png")):
            path.rename(path.with_name(f"{path.parent.name}-{path.name}"))
        shutil.copy(data / part / "red" / "red-0.png", data / part / "blue" / "red-0.png")
    opened = open_labelled(EvaluateSettings(data=str(data)))
    assert opened.metric == "map-11"
    labels = (opened.train_labels, opened.test_labels)
    assert [targets.shape for targets in labels] == [(24, 3), (18, 3)]
    assert [targets.sum(axis=0).tolist() for targets in labels] == [[9, 8, 8], [7, 6, 6]]
    (result,) = evaluate_run(
        run, {"data": str(data), "protocol": ["transfer"], "search": "quick", "workers": 0}
    )
    assert result.metric == "map-11" and result.score > 0.8
    with pytest.raises(UserError, match="show several classes, which knn does not support"):
        evaluate_run(run, {"data": str(data), "protocol": ["knn"], "workers": 0})


def test_classes_with_too_few_images_are_named(run: Path, tmp_path: Path) -> None:
    data = write_images(tmp_path / "train", per_class=6, seed=0).parent
    write_images(tmp_path / "test", per_class=2, seed=1)
    for number in range(3):
        (data / "train" / "red" / f"{number}.png").unlink()
    with pytest.raises(UserError, match=r"1 of 3 classes have fewer .*= 5 .*: red \(3\); choose at most 3"):
        evaluate_run(run, {"data": str(data), "protocol": ["fewshot"], "workers": 0})


def test_the_table_names_twenty_sets_with_their_metrics() -> None:
    sets = {each.name: each for each in transfer_sets()}
    assert len(sets) == 20
    by_metric = {
        "mean-per-class": {"caltech101", "flowers102", "pets", "aircraft"},
        "map-11": {"voc2007"},
        "roc-auc": {"hateful-memes"},
    }
    for metric, names in by_metric.items():
        assert {name for name, each in sets.items() if each.metric == metric} == names
    classes = "102 10 100 211 47 10 7 100 101 43 2 4 10 102 37 2 2 45 196 20"
    assert [each.classes for each in transfer_sets()] == [int(number) for number in classes.split()]
    train = "3060 50000 50000 31650 1880 5000 28709 3334 75750 26640 8500 6347 60000 1020 3680 262144 6920 3150 8144"
    test = (
        "6084 10000 10000 21100 1880 5000 3589 3333 25250 12630 500 711 10000 6149 3669 32768 1821 25200 8041"
    )
    assert [each.train for each in transfer_sets()] == [int(number) for number in f"{train} 2501".split()]
    assert [each.test for each in transfer_sets()] == [int(number) for number in f"{test} 4952".split()]
    assert all(each.metric in METRICS and each.split and each.get and each.layout for each in sets.values())
    folders = [name for each in sets.values() for name in each.folders]
    assert len(set(folders)) == len(folders)
    assert known_set("/data/Oxford_Pets/") == sets["pets"] and known_set("photos") is None


def test_an_unknown_metric_is_answered_with_the_nearest(run: Path) -> None:
    with pytest.raises(UserError, match="no metric 'acuracy'; did you mean accuracy"):
        evaluate_run(run, {"data": "x", "metric": "acuracy"})


def test_results_say_the_metric(run: Path, tmp_path: Path) -> None:
    for part, count in (("train", 6), ("test", 3)):
        write_images(tmp_path / "pets" / part, per_class=count, seed=count)
    (result,) = evaluate_run(
        run,
        {"data": str(tmp_path / "pets"), "protocol": ["fewshot"], "search": "quick", "workers": 0},
    )
    stored = json.loads(next((run / "evaluation").glob("fewshot-pets-5-per-class-*.json")).read_text())
    assert stored["metric"] == result.metric == "mean-per-class"
    assert any("nine settings" in note for note in stored["notes"])
    different = "pets here: 3 classes, 18 training and 9 test images; in the benchmark: 37, 3,680 and 3,669"
    assert sum(note.startswith(different) for note in stored["notes"]) == 1
    assert known_set("pets").difference(37, 3680, 3669) == ""


def test_the_page_shows_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "protocols.md").read_text(encoding="utf-8")
    for each in transfer_sets():
        sizes = f"{each.classes} | {each.train:,} + {each.test:,}"
        get = re.sub(r"(https?://[^\s,]+)", r"<\1>", each.get)
        row = f"| `{each.name}` | {each.title} | {sizes} | {each.metric} | {each.split} | {get} |"
        assert f"{row} {each.layout} |" in page


@pytest.fixture
def any_size(task: Task) -> Task:
    """The task with an encoder that takes images of any size."""
    return replace(task, encoder=build_encoder("resnet18", image_size=64).eval())


def test_the_benchmarks_view_is_pillows_bicubic_resize_without_a_margin(
    any_size: Task, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (120, 300, 3), dtype=np.uint8))
    (tmp_path / "train").mkdir()
    picture.save(tmp_path / "train" / "a.png")
    wide = open_source(str(tmp_path / "train"), part="train")
    seen = as_benchmark(replace(any_size, data=LabelledData(wide, wide, "by hand", 1)))
    assert any_size.encoder.info.image_size == 64  # the encoder itself stays as it was
    loader = ImageLoader(seen.encoder.info, wide, centre_view(seen.encoder.info), Machine(1, 0))
    ((images, _),) = loader.epoch(0)
    pixels = as_bytes(unnormalised(images, seen.encoder.info.mean, seen.encoder.info.std))[0]
    resized = picture.resize((560, 224), Image.Resampling.BICUBIC).crop((168, 0, 392, 224))
    expected = torch.from_numpy(np.array(resized)).permute(2, 0, 1)
    assert (pixels.int() - expected.int()).abs().max() <= 1


def test_kitti_is_squeezed_and_others_are_not(any_size: Task) -> None:
    data = any_size.data

    def named(name: str) -> Task:
        source = ArraySource(name, data.train.images, labels=data.train.labels)
        return as_benchmark(replace(any_size, data=replace(data, train=source, test=source)))

    kitti, pets = named("suite/kitti"), named("suite/pets")
    assert kitti.data.train.read(3).size == (224, 224) and len(kitti.data.train) == 36
    assert kitti.data.train.subset(np.array([5, 3])).read(1) == kitti.data.train.read(3)
    assert kitti.data.train_labels.tolist() == data.train_labels.tolist()
    assert pets.data.train.read(3).size == (18, 18)


def test_the_view_reaches_both_learners(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the encoder's own size, so that only filter and margin differ."""
    size = task.encoder.info.image_size
    monkeypatch.setattr(benchmark_view, "SIDE", size)
    seen: list[tuple[str, int | None]] = []

    def watched(info: EncoderInfo) -> Augmentation:
        seen.append((info.interpolation, info.resize))
        return centre_view(info)

    monkeypatch.setattr(sys.modules["cacr.features.encode"], "centre_view", watched)
    monkeypatch.setattr(network_learner, "centre_view", watched)
    short = {"draws": 1, "search": "quick", "epochs": 1, "final_epochs": 1}
    for protocol in (fewshot, PROTOCOLS["fewshot-finetune"]):
        seen.clear()
        protocol(task, FewShotSettings(view="elevater", **short))
        assert set(seen) == {("bicubic", size)}


def test_an_encoder_of_one_size_is_refused(task: Task) -> None:
    why = TransferSettings(view="elevater").refusal(task.encoder)
    assert why is not None and "leave out view=elevater" in why
    assert TransferSettings(view="encoder").refusal(task.encoder) is None


def test_all_labels_with_several_seeds(task: Task) -> None:
    short = {"search": "quick", "epochs": 1, "final_epochs": 2}
    several = transfer(task, TransferSettings(repeats=3, **short))
    alone = [transfer(replace(task, seed=task.seed + n), TransferSettings(**short)).value for n in range(3)]
    assert several.details["scores"] == pytest.approx(alone)
    assert several.value == pytest.approx(np.mean(alone))
    assert several.spread == pytest.approx(np.std(alone, ddof=1))
