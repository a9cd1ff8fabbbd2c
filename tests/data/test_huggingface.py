"""Data sets of the datasets library, from local files only."""

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cacr.data import Loader, MissingPartError, open_source
from cacr.errors import MissingExtraError, UserError
from tests.data.making import picture, plain_crop

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def write(folder: Path, split: str, columns: dict[str, Any], **kinds: Any) -> Path:
    folder.mkdir(exist_ok=True)
    features = datasets.Features({"image": datasets.Image(), **kinds})
    datasets.Dataset.from_dict(columns, features=features).to_parquet(folder / f"{split}.parquet")
    return folder


IMAGES = [picture(number) for number in range(5)]


def test_images_labels_and_parts(tmp_path: Path) -> None:
    kinds = {"label": datasets.ClassLabel(names=["cat", "dog"])}
    folder = write(tmp_path / "set", "train", {"image": IMAGES, "label": [0, 1, 1, 0, 1]}, **kinds)
    source = open_source(f"hf:{folder}")
    assert source.class_counts() == {"cat": 2, "dog": 3} and len(source) == 5
    assert all(
        np.array_equal(np.asarray(sample.image), np.asarray(IMAGES[sample.number])) for sample in source
    )
    part = source.subset(np.array([4, 2]))
    assert part.describe(1).endswith("set[2]") and np.array_equal(
        np.asarray(part.read(0)), np.asarray(IMAGES[4])
    )
    with pytest.raises(MissingPartError, match="its splits are train"):
        open_source(f"hf:{folder}", part="test")
    write(folder, "test", {"image": IMAGES[:1], "label": [1]}, **kinds)
    assert open_source(f"hf:{folder}", part="test").class_counts() == {"cat": 0, "dog": 1}


def test_rows_are_loaded_in_workers(tmp_path: Path) -> None:
    kinds = {"label": datasets.ClassLabel(names=["a", "b", "c", "d", "e"])}
    folder = write(tmp_path / "set", "train", {"image": IMAGES, "label": list(range(5))}, **kinds)
    for workers in (0, 2):
        loader = Loader(open_source(f"hf:{folder}"), batch_size=2, seed=0, crop=plain_crop, workers=workers)
        batches = list(loader.epoch(0))
        assert [len(batch) for batch in batches] == [2, 2]  # the fifth image is alone
        for batch in batches:
            assert batch.labels is not None and torch.equal(batch.labels, batch.index)
            for place, index in enumerate(batch.index.tolist()):
                expected = plain_crop(IMAGES[index], torch.Generator())[0][0]
                assert torch.equal(batch.images[0][0, place], expected)


def test_captions_and_missing_labels(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "set",
        "train",
        {"image": IMAGES[:2], "caption": ["a cat", "a dog"]},
        caption=datasets.Value("string"),
    )
    assert open_source(f"hf:{folder}").captions == (("a cat",), ("a dog",))
    lists = {"image": IMAGES[:2], "captions": [["a cat", None, "a tom"], None]}
    folder = write(tmp_path / "lists", "train", lists, captions=datasets.List(datasets.Value("string")))
    assert open_source(f"hf:{folder}").captions == (("a cat", "a tom"), ())
    numbers = {"image": IMAGES[:2], "text": [3, 4]}
    folder = write(tmp_path / "numbers", "train", numbers, text=datasets.Value("int64"))
    assert open_source(f"hf:{folder}").captions is None
    folder = write(
        tmp_path / "other",
        "train",
        {"image": IMAGES[:2], "label": [0, -1]},
        label=datasets.ClassLabel(names=["cat"]),
    )
    source = open_source(f"hf:{folder}")
    assert source.labels is None and "1 images" in source.notes[0]


def test_a_set_without_images(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_dict({"text": ["a"]}).to_parquet(tmp_path / "set" / "train.parquet")
    with pytest.raises(UserError, match="no column of images; its columns are text"):
        open_source(f"hf:{tmp_path / 'set'}")


def test_the_network_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(UserError, match="use --download"):
        open_source("hf:nobody/nothing")
    assert datasets.config.HF_HUB_OFFLINE is False


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"cacr\[hf\]"):
        open_source("hf:nobody/nothing")
