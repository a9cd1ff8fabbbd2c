"""Labels that an evaluation cannot use: one message for each, and in a suite the other sets go on."""

import json
import shutil
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cacr.config import EvaluateSettings
from cacr.errors import UserError
from cacr.evaluation import evaluate_suite
from cacr.evaluation.data.labelled import LabelledData, open_labelled
from tests.evaluation.conftest import write_images

IMAGES = np.random.default_rng(0).integers(0, 255, (12, 16, 16, 3)).astype(np.uint8)
GOOD = np.arange(12) % 3


def _npz(path: Path, labels: object) -> str:
    np.savez(path, x=IMAGES, y=np.asarray(labels))
    return str(path)


def _open(data: str, **values: object) -> LabelledData:
    return open_labelled(EvaluateSettings(data=data, **values))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (GOOD.astype(float), r"y must have 12 labels, integers from 0, but it is float64 \(12,\)"),
        (np.full(12, np.nan), r"but it is float64 \(12,\)"),
        ([str(label) for label in GOOD], r"but it is <U1 \(12,\)"),
        (GOOD > 0, r"but it is bool \(12,\)"),
        (np.eye(3, dtype=np.int64)[GOOD], r"but it is int64 \(12, 3\)"),
        (GOOD[:11], r"but it is int64 \(11,\)"),
        (GOOD - 1, r"but they are from -1 to 1"),
        (GOOD.astype(np.uint64) + 2**63, r"but they are from 9223372036854775808 to 9223372036854775810"),
    ],
    ids=["float", "nan", "text", "bool", "one-hot", "too-few", "negative", "overflow"],
)
def test_an_array_of_wrong_labels_is_described(tmp_path: Path, labels: object, message: str) -> None:
    with pytest.raises(UserError, match=rf"wrong\.npz: .*{message}"):
        _open(_npz(tmp_path / "wrong.npz", labels))


def test_numbers_of_classes_may_have_gaps(tmp_path: Path) -> None:
    years = np.array([1999, 7, 10**12])
    train, test = _npz(tmp_path / "a.npz", years[GOOD]), _npz(tmp_path / "b.npz", years[GOOD[::-1] // 2])
    data = _open(train, test_data=test)
    assert data.classes == 3 and data.train.class_names == ("7", "1999", "1000000000000")
    order = np.array([1, 0, 2])  # of 1999, 7 and the third among the sorted numbers
    assert np.array_equal(data.train_labels, order[GOOD])
    assert np.array_equal(data.test_labels, order[GOOD[::-1] // 2])


def test_test_labels_outside_of_the_training_classes_are_refused(tmp_path: Path) -> None:
    train = _npz(tmp_path / "train.npz", GOOD)
    more = _npz(tmp_path / "more.npz", GOOD + 1)
    with pytest.raises(UserError, match=r"more\.npz has 1 classes that the training data lacks, .* '3'"):
        _open(train, test_data=more)
    folder = write_images(tmp_path / "folder", per_class=3, seed=0)
    with pytest.raises(UserError, match=r"more\.npz has a label 3, but the classes of .*folder are 0 to 2"):
        _open(str(folder), test_data=more)
    data = _open(str(folder), test_data=train)  # numbers alone are in the order of the names
    assert data.classes == 3 and np.array_equal(data.test_labels, GOOD)
    with pytest.raises(UserError, match=r"folder has 3 classes that the training data lacks, .* 'blue'"):
        _open(train, test_data=str(folder))


def test_captions_are_no_labels(tmp_path: Path) -> None:
    lines = []
    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "captions": ["a photo"]}))
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    with pytest.raises(UserError, match=r"train\.jsonl has captions, but no labels"):
        _open(str(tmp_path / "train.jsonl"))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (("cls", b"cat"), r"a\.tar, 1\.cls: its class is 'cat', not a number from 0"),
        (("cls", b"-1"), r"a\.tar, 1\.cls: its class is '-1', not a number from 0"),
        (("cls", b"1" * 19), r"a\.tar, 1\.cls: its class is '1{19}', not a number from 0"),
        (("txt", b"a cat"), r"a\.tar has no labels, .*; only 1 images of .*a\.tar have a class"),
    ],
    ids=["word", "negative", "overflow", "caption"],
)
def test_a_shard_with_a_wrong_class_is_named(tmp_path: Path, second: tuple[str, bytes], message: str) -> None:
    pytest.importorskip("webdataset")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number, (suffix, content) in enumerate([("cls", b"0"), second]):
            png = BytesIO()
            Image.fromarray(IMAGES[number]).save(png, "PNG")
            for name, data in ((f"{number}.png", png.getvalue()), (f"{number}.{suffix}", content)):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, BytesIO(data))
    with pytest.raises(UserError, match=message):
        _open(f"wds:{tmp_path}/a.tar")


@pytest.mark.parametrize("kind", ["int64", "string", "float64"])
def test_a_column_that_is_not_declared_as_classes_is_named(tmp_path: Path, kind: str) -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"image": [Image.fromarray(image) for image in IMAGES], "label": [str(label) for label in GOOD]}
    if kind != "string":
        rows["label"] = GOOD.astype(kind).tolist()
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value(kind)})
    (tmp_path / "hub").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "hub" / "train.parquet")
    with pytest.raises(UserError, match=r"hub has no labels, .*; the column label of .*ClassLabel"):
        _open(f"hf:{tmp_path / 'hub'}")


def test_a_suite_goes_on_after_sets_with_wrong_labels(run: Path, tmp_path: Path) -> None:
    """Every way in which a folder's classes may be wrong, and one sound set."""
    sets = tmp_path / "sets"
    for name in ("flat-test", "one-class", "other-classes", "sound", "stray"):
        write_images(sets / name / "train", per_class=6, seed=0)
        write_images(sets / name / "test", per_class=2, seed=1)
    for path in list((sets / "flat-test" / "test").rglob("*.png")):
        path.rename(sets / "flat-test" / "test" / f"{path.parent.name}{path.name}")
    for colour in ("red", "green"):
        shutil.rmtree(sets / "one-class" / "train" / colour)
    (sets / "other-classes" / "test" / "red").rename(sets / "other-classes" / "test" / "pink")
    shutil.copy(sets / "stray" / "train" / "red" / "0.png", sets / "stray" / "train")
    values = {"protocol": ("fewshot",), "search": "quick", "epochs": 1, "final_epochs": 1, "workers": 0}
    report = evaluate_suite(run, {**values, "data": f"suite:{sets}"})
    assert [name for name, _, _ in report.results] == ["sound"]
    reasons = {failure.name: failure.reason for failure in report.failures}
    assert list(reasons) == ["flat-test", "one-class", "other-classes", "stray"]
    assert "test has no sub-folders with images, so no classes" in reasons["flat-test"]
    assert (
        "one-class has no labels" in reasons["one-class"] and "at least two classes" in reasons["one-class"]
    )
    assert "1 classes that the training data lacks, for example 'pink'" in reasons["other-classes"]
    assert "stray has no labels" in reasons["stray"] and "one sub-folder per class" in reasons["stray"]
