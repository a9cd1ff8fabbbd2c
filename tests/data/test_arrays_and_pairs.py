"""Arrays in files, and images with captions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cacr.data import ArraySource, MissingPartError, open_source
from cacr.errors import UserError
from tests.data.making import save

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)


def test_npz_with_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=IMAGES, y=[0, 1, 0, 2, 1])
    source = open_source(str(tmp_path / "a.npz"))
    assert isinstance(source, ArraySource) and np.array_equal(
        source.images.permute(0, 2, 3, 1).numpy(), IMAGES
    )
    assert source.class_counts() == {"0": 2, "1": 2, "2": 1}
    assert source[3].target == 2 and np.array_equal(np.asarray(source[3].image), IMAGES[3])
    with pytest.raises(IndexError):
        source[5]
    with pytest.raises(MissingPartError):
        open_source(str(tmp_path / "a.npz"), part="test")


def test_npz_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    bad = {
        "needs an array x": {"images": IMAGES},
        "must be uint8": {"x": IMAGES.astype(np.float32)},
        "not uint8 .5, 6, 7, 300": {"x": np.zeros((5, 6, 7, 300), dtype=np.uint8)},
        "has no images": {"x": IMAGES[:0]},
        "y must have 5 labels": {"x": IMAGES, "y": [1, 2]},
        "x holds pickled objects": {"x": np.array([{"a": 1}], dtype=object)},
    }
    for message, arrays in bad.items():
        np.savez(path, **arrays)
        with pytest.raises(UserError, match=message):
            open_source(str(path))
    path.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(UserError, match="cannot be read"):
        open_source(str(path))


def test_npy_is_memory_mapped_and_its_subset_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, IMAGES)
    source = open_source(str(path))
    assert isinstance(source, ArraySource)
    part = source.subset(np.array([4, 1, 2])).subset(np.array([0, 2]))
    assert np.array_equal(part.take(np.array([1, 0])).permute(0, 2, 3, 1).numpy(), IMAGES[[2, 4]])
    # A change of the file shows: nothing has been read into memory beforehand.
    with path.open("r+b") as file:
        file.seek(-3, 2)
        file.write(bytes([1, 2, 3]))
    assert np.asarray(part.read(0))[-1, -1].tolist() == [1, 2, 3]
    source.images[0] = 0  # and our own memory never reaches the file
    assert np.array_equal(np.load(path)[0], IMAGES[0])
    assert len(part) == 2 and part.images.shape == (2, 3, 6, 7) and len(source) == 5


@pytest.mark.parametrize("shape", [(5, 6, 7), (5, 6, 7, 1)])
def test_grey_arrays_get_three_channels(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", IMAGES[..., 0].reshape(shape))
    source = open_source(f"npy:{tmp_path / 'a.npy'}")
    assert isinstance(source, ArraySource)
    expected = torch.from_numpy(np.repeat(IMAGES[:, None, :, :, 0], 3, axis=1))
    assert torch.equal(source.images, expected) and torch.equal(source.take(np.arange(5)), expected)


def test_pickled_npy_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="holds pickled objects"):
        open_source(str(tmp_path / "a.npy"))


def write_lines(path: Path, *entries: object) -> Path:
    path.write_text("\n".join(json.dumps(entry) for entry in entries) + "\n")
    return path


def test_pairs(tmp_path: Path) -> None:
    save(tmp_path / "train/1.jpg")
    save(tmp_path / "train/2.jpg")
    train = write_lines(
        tmp_path / "train.jsonl",
        {"image": "train/2.jpg", "captions": ["a dog", "an animal"]},
        {"image": "train/1.jpg", "captions": "a cat"},
    )
    write_lines(tmp_path / "test.jsonl", {"image": "train/1.jpg", "captions": ["a test"]})
    source = open_source(f"pairs:{train}")
    assert source.captions == (("a dog", "an animal"), ("a cat",)) and source.labels is None
    assert source[0].target == ("a dog", "an animal") and source[1].image.size == (24, 16)
    assert source.subset(np.array([1])).captions == (("a cat",),)
    assert open_source(str(train), part="test").captions == (("a test",),)


@pytest.mark.parametrize(
    "name", ["../secret.jpg", "/etc/passwd", "a/../../b.jpg", "..\\b.jpg", "C:\\b.jpg", ""]
)
def test_pairs_never_lead_out_of_their_folder(tmp_path: Path, name: str) -> None:
    file = write_lines(
        tmp_path / "a.jsonl", {"image": "fine.jpg", "captions": ["x"]}, {"image": name, "captions": ["x"]}
    )
    with pytest.raises(UserError, match=r"a\.jsonl, line 2: .*leads out of its folder"):
        open_source(f"pairs:{file}")


@pytest.mark.parametrize(
    "line", ['{"image": "a.jpg"}', "[1, 2]", "nonsense", '{"image": 3, "captions": ["x"]}', "[" * 9999]
)
def test_pairs_say_which_line_is_wrong(tmp_path: Path, line: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(line)
    with pytest.raises(UserError, match=r"a\.jsonl, line 1: "):
        open_source(f"pairs:{file}")
