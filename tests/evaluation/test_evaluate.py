import json
from pathlib import Path

import pytest
import torch
from rich.console import Console

from cacr.config import EvaluateSettings
from cacr.data import ArraySource
from cacr.encoders import load_encoder
from cacr.errors import SettingsError, UserError
from cacr.evaluation import evaluate, evaluate_run, read_results
from cacr.evaluation.data.labelled import LabelledData, open_labelled
from cacr.evaluation.data.task import Task
from cacr.evaluation.protocols.knn import knn_predict
from cacr.evaluation.protocols.linear import LinearSettings, fit_linear
from cacr.evaluation.protocols.linear_paper import PaperLinearSettings, linear_paper
from cacr.features.reader import COMPONENTS, READER
from cacr.reporting.results import results_table
from tests.evaluation.conftest import write_images

pytestmark = pytest.mark.trains


def test_results_say_what_they_depend_on(run: Path, images: Path) -> None:
    settings = EvaluateSettings(
        data=str(images),
        protocol=("knn", "linear"),
        options={"k": 3, "linear.epochs": 20},
        baselines=(),
        workers=0,
        seed=5,
    )
    results = evaluate(run, settings)
    files = sorted((run / "evaluation").iterdir())
    assert [path.name[:-14] for path in files] == [f"knn-{images.name}", f"linear-{images.name}"]
    stored = json.loads(files[0].read_text())
    assert stored["score"] == results[0].score > 0.8
    reader = {"reader": READER, "reader_components": COMPONENTS}
    assert stored["settings"] == {"k": 3, "temperature": 0.07, "labels_per_class": None, "draws": 5, **reader}
    assert stored["seed"] == 5
    assert stored["counts"] == {"train_images": 36, "test_images": 9, "classes": 3, "unreadable": 0}
    assert stored["training"] == {"images": 30, "views": 5, "steps": 7}
    assert stored["split"] == f"a fifth of each class of {images}, held out with seed 5"
    assert stored["encoder"]["encoder"] == "small_alexnet"
    assert {"cacr", "torch", "python"} <= set(stored["versions"])
    assert json.loads(files[1].read_text())["settings"]["epochs"] == 20
    assert read_results(run / "evaluation") == results
    assert evaluate(run, settings) == results


def test_few_labels_give_mean_and_spread_beside_baselines(run: Path, images: Path) -> None:
    results = evaluate_run(
        run,
        {
            "data": str(images),
            "labels_per_class": 2,
            "draws": 3,
            "baselines": ["untrained", "pixels"],
            "workers": 0,
        },
    )
    assert [(r.protocol, r.subject) for r in results] == [
        (protocol, subject)
        for subject in ("encoder", "untrained", "pixels")
        for protocol in ("knn", "linear")
    ]
    for result in results:
        scores = torch.tensor(result.details["scores"], dtype=torch.float64)
        assert len(scores) == 3
        assert result.score == pytest.approx(scores.mean().item())
        assert result.spread == pytest.approx(scores.std().item())
    assert len(list((run / "evaluation").glob(f"linear-{images.name}-2-per-class-pixels-*.json"))) == 1
    console = Console(width=120)
    with console.capture() as capture:
        console.print(results_table(results))
    shown = " ".join(capture.get().split())
    assert all(
        text in shown
        for text in ("untrained", "pixels", "2 per class", results[0].text, "held out with seed 0")
    )


def test_a_test_folder_is_numbered_like_the_training_folder(run: Path, images: Path, tmp_path: Path) -> None:
    test = write_images(tmp_path / "test", per_class=4, seed=1, classes=("green", "red"))
    values = {"data": str(images), "test_data": str(test), "protocol": ["knn"], "k": 5, "workers": 0}
    (result,) = evaluate_run(run, {**values, "baselines": []})
    assert result.score > 0.8  # by the folders' own numbering nothing would be right
    assert result.split == f"the images of {test}"
    assert result.counts["train_images"] == 45 and result.counts["test_images"] == 8


def test_the_paper_protocol_reports_the_last_epoch_and_names_the_best(run: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 100, (60, 3, 16, 16), generator=generator, dtype=torch.uint8)
    labels = torch.arange(60) % 3
    pixels[torch.arange(60), labels] += 100
    train = ArraySource("train", pixels[:40], labels=labels[:40].numpy())
    test = ArraySource("test", pixels[40:], labels=labels[40:].numpy())
    encoder = load_encoder(run).train()
    for layer in encoder.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            layer.momentum = None  # statistics of this data, so that features are of ordinary size
    encoder(torch.stack([encoder.preprocess(image) for image in pixels]))
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    seen: list[tuple[int, int]] = []
    task = Task(encoder, LabelledData(train, test, "by hand", 3), progress=lambda *now: seen.append(now))
    score = linear_paper(task, PaperLinearSettings(lr=0.01, epochs=6, batch_size=8))
    curve = score.details["epochs"]
    assert len(curve) == 6 and score.value == curve[-1] > 0.6
    assert score.details["best"] == max(curve) == curve[score.details["best_epoch"] - 1]
    assert seen[-1] == (6, 6)
    torch.testing.assert_close(encoder.state_dict(), before)  # also the statistics of batch norm


def test_knn_and_linear_report_the_metric_asked_for(run: Path, images: Path, tmp_path: Path) -> None:
    """On test images of classes of different sizes, some in the wrong one, so that every metric differs."""
    test = write_images(tmp_path / "test", per_class=9, seed=1)
    for path in sorted((test / "red").iterdir())[:6]:
        path.unlink()
    for path in sorted((test / "blue").iterdir())[:7]:
        path.rename(test / "red" / f"moved-{path.name}")
    values = {"data": str(images), "test_data": str(test), "k": 3, "linear.epochs": 5, "workers": 0}
    values["baselines"] = []
    metrics = ("accuracy", "mean-per-class", "roc-auc")
    results = {m: evaluate_run(run, {**values, "metric": m}) for m in metrics}

    task = Task(load_encoder(run), open_labelled(EvaluateSettings(data=str(images), test_data=str(test))))
    train, judged, labels = task.train, task.test, task.test.labels
    classifier = fit_linear(train.values, train.labels, classes=3, settings=LinearSettings(epochs=5), seed=0)
    predictions = (
        knn_predict(train.values, train.labels, judged.values, k=3, temperature=0.07),
        classifier.predict(judged.values),
    )
    for protocol, predicted in enumerate(predictions):
        hits = (predicted == labels).double()
        per_class = torch.stack([hits[labels == c].mean() for c in range(3)])
        found = [results[m][protocol].score for m in metrics]
        assert found[:2] == [pytest.approx(hits.mean().item()), pytest.approx(per_class.mean().item())]
        assert len(set(found)) == 3
    assert all(result.metric == m for m in metrics for result in results[m])
    assert len(list((run / "evaluation").iterdir())) == 6  # none in place of another


def test_a_metric_that_would_change_nothing_is_refused(run: Path) -> None:
    values = {"data": "x", "metric": "mean-per-class"}
    with pytest.raises(UserError, match="retrieval and cluster: they have their own metrics"):
        evaluate_run(run, {**values, "protocol": ("retrieval", "cluster")})
    with pytest.raises(UserError, match="no effect on cluster: they have"):
        evaluate_run(run, {**values, "protocol": ("knn", "cluster")})
    with pytest.raises(UserError, match="no metric 'mean'"):
        evaluate_run(run, {**values, "metric": "mean"})


def test_every_wrong_setting_is_named_at_once(run: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        evaluate_run(
            run,
            {
                "data": "x",
                "batch_size": 0,
                "temprature": 1,
                "knn.kk": 2,
                "k": -1,
                "seeed": 3,
                "protocol": ("knn",),
            },
        )
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    assert "batch_size must be" in text
    assert "no setting 'temprature'; did you mean temperature" in text
    assert "no setting 'knn.kk'; did you mean knn.k" in text
    assert "knn: k must be" in text
    assert "no setting 'seeed'; did you mean seed" in text


def test_unknown_protocols_and_baselines_are_answered_with_the_nearest(run: Path) -> None:
    with pytest.raises(UserError, match="no protocol 'linaer'; did you mean linear"):
        evaluate_run(run, {"data": "x", "protocol": ("linaer",)})
    with pytest.raises(UserError, match="no baseline 'pixel'; did you mean pixels"):
        evaluate_run(run, {"data": "x", "baselines": ("pixel",)})


def test_data_without_labels_is_refused(run: Path, images: Path) -> None:
    with pytest.raises(UserError, match="has no labels, which evaluation needs"):
        evaluate_run(run, {"data": str(images / "red")})


def test_more_labels_than_there_are_is_refused(run: Path, images: Path) -> None:
    with pytest.raises(UserError, match="choose at most 12"):
        evaluate_run(run, {"data": str(images), "labels_per_class": 13, "workers": 0})


def test_one_image_of_each_class_is_refused(run: Path, tmp_path: Path) -> None:
    data = write_images(tmp_path / "data", per_class=1, seed=0)
    with pytest.raises(UserError, match=r"no image of .* can be held out.*give test_data"):
        evaluate_run(run, {"data": str(data), "workers": 0})


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(run: Path) -> None:
    (run / "evaluation").touch()
    with pytest.raises(UserError, match=r"cannot write into .*evaluation: Not a directory"):
        evaluate_run(run, {"data": "nothing"})


def test_what_is_left_out_stands_under_the_table(run: Path, tmp_path: Path) -> None:
    data = write_images(tmp_path / "data", per_class=5, seed=0)
    (data / "red" / "0.png").write_bytes(b"no image")
    (data / "red" / "0.heic").touch()
    results = evaluate_run(
        run, {"data": str(data), "k": 3, "workers": 0, "protocol": ["knn"], "baselines": []}
    )
    assert results[0].counts["unreadable"] == 1
    assert any("1 HEIC files are left out" in note for note in results[0].notes)
    assert read_results(run / "evaluation") == results
    console = Console(width=1000)
    with console.capture() as capture:
        console.print(results_table(results))
    shown = " ".join(capture.get().split())
    assert "held out with seed 0 (1 unreadable images left out)" in shown
    assert "1 HEIC files are left out" in shown and "used as classes" not in shown


def test_a_result_says_what_was_held_out_and_taken_for_classes(
    run: Path, images: Path, tmp_path: Path
) -> None:
    values = {"data": str(images), "protocol": ("knn",), "workers": 0, "baselines": ()}
    (drawn,) = evaluate_run(run, values)
    assert drawn.held_out and drawn.split.endswith("held out with seed 0")
    assert len(drawn.assumptions) == 1 and "used as classes" in drawn.assumptions[0] and not drawn.notes
    test = write_images(tmp_path / "test", per_class=3, seed=1)
    (given,) = evaluate_run(run, {**values, "data": f"imagefolder:{images}", "test_data": str(test)})
    assert not given.held_out and [str(test) in note for note in given.assumptions] == [True]
