"""The check before training, and the inspection for a person."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cacr.data import ArraySource, FileSource, inspect_source, open_source, prepare
from cacr.errors import UserError
from tests.data.making import numbered, picture, save, truncate


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Twenty images too large for memory, of which four are damaged in different ways."""
    for number in range(16):
        save(tmp_path / f"good{number:02}.jpg", picture(number, 200, 150))
    (tmp_path / "zero.jpg").touch()
    (tmp_path / "words.png").write_text("not a picture")
    truncate(save(tmp_path / "half.jpg", picture(1, 200, 150)), 0.6)
    truncate(save(tmp_path / "half.png", picture(1, 200, 150)), 0.6)
    return tmp_path


def test_damage_is_left_out_and_listed(mixed: Path) -> None:
    calls: list[tuple[int, int]] = []
    prepared = prepare(open_source(str(mixed)), max_unreadable=0.2, progress=lambda *at: calls.append(at))
    assert isinstance(prepared.source, FileSource) and len(prepared.source) == 16
    assert all(path.name.startswith("good") for path in prepared.source.paths)
    listed = {Path(problem.where).name: problem.reason for problem in prepared.problems}
    assert set(listed) == {"zero.jpg", "words.png", "half.jpg", "half.png"} and all(listed.values())
    assert calls == [(done, 20) for done in range(1, 21)]


def test_more_than_a_tenth_stops(mixed: Path) -> None:
    with pytest.raises(
        UserError, match=r"4 of 20 images cannot be read, more than the limit of 10%[\s\S]*half\.jpg"
    ):
        prepare(open_source(str(mixed)))


def test_broken_links_are_left_out(tmp_path: Path) -> None:
    numbered(tmp_path, 10)
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    prepared = prepare(open_source(str(tmp_path)))
    assert [(Path(p.where).name, p.reason) for p in prepared.problems] == [
        ("link.png", "No such file or directory")
    ]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_forbidden_files_are_left_out(tmp_path: Path) -> None:
    numbered(tmp_path, 10)
    (tmp_path / "003.png").chmod(0)
    (problem,) = prepare(open_source(str(tmp_path))).problems
    assert (Path(problem.where).name, problem.reason) == ("003.png", "Permission denied")


def test_a_sound_jpeg_with_bytes_after_its_end_is_kept(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jpg")
    path.write_bytes(path.read_bytes() + b"\0" * 10_000)
    assert prepare(open_source(str(tmp_path))).problems == ()


def test_large_sets_are_checked_in_part(tmp_path: Path) -> None:
    source = open_source(str(numbered(tmp_path / "a", 40)))
    seen: list[int] = []
    prepared = prepare(source, check_at_most=10, progress=lambda done, _: seen.append(done))
    assert len(seen) == 10 and len(prepared.source) == 40 and isinstance(prepared.source, FileSource)


def test_small_equal_images_move_into_memory(tmp_path: Path) -> None:
    for number in range(12):
        save(tmp_path / f"{'ab'[number % 2]}/{number:02}.png", picture(number, 30, 20))
    truncate(tmp_path / "a/04.png")
    source = open_source(str(tmp_path))
    prepared = prepare(source)
    small = prepared.source
    assert isinstance(small, ArraySource) and small.images.shape == (11, 3, 20, 30)
    assert [problem.index for problem in prepared.problems] == [2]
    assert small.class_names == ("a", "b") and small.class_counts() == {"a": 5, "b": 6}
    assert small.notes == source.notes and small.name == source.name
    for index, number in enumerate([0, 2, 6, 8, 10, 1, 3, 5, 7, 9, 11]):
        assert np.array_equal(np.asarray(small.read(index)), np.asarray(picture(number, 30, 20)))


@pytest.mark.parametrize("size", [(97, 20), (20, 97)])
def test_larger_images_stay_in_their_files(tmp_path: Path, size: tuple[int, int]) -> None:
    save(tmp_path / "a.png", picture(0, *size))
    assert isinstance(prepare(open_source(str(tmp_path))).source, FileSource)


def test_equal_files_that_turn_upright_differently_are_not_put_into_one_array(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    save(tmp_path / "a.jpg")
    save(tmp_path / "b.jpg", exif=exif)
    assert isinstance(prepare(open_source(str(tmp_path))).source, FileSource)


def test_captions_survive(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "a.jsonl").write_text('{"image": "a.png", "captions": ["a"]}')
    assert prepare(open_source(str(tmp_path / "a.jsonl"))).source.captions == (("a",),)


def noise(count: int) -> ArraySource:
    pixels = torch.randint(
        256, (count, 3, 8, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return ArraySource("noise", pixels, labels=np.arange(count) % 10)


def test_arrays_pass_through() -> None:
    source = noise(20)
    assert prepare(source).source is source


def test_inspection_of_a_folder(mixed: Path) -> None:
    save(mixed / "copy.jpg", picture(3, 200, 150))
    save(mixed / "blank.png", Image.new("RGB", (10, 90), "red"))
    found = inspect_source(open_source(str(mixed)))
    assert (found.count, found.examined, found.classes) == (22, 22, None)
    assert {Path(problem.where).name for problem in found.unreadable} == {
        "zero.jpg",
        "words.png",
        "half.jpg",
        "half.png",
    }
    assert [sorted(Path(name).name for name in group) for group in found.duplicates] == [
        ["copy.jpg", "good03.jpg"]
    ]
    assert found.sizes == ((10, 90), (200, 150), (200, 150)) and found.formats == {"JPEG": 17, "PNG": 1}
    assert found.warnings == (
        "4 of 22 images cannot be read",
        "1 of 22 images are exact copies of another",
        "1 of 22 images are blank: one colour only",
        "1 of 22 images have a side shorter than 16 pixels",
        "1 of 22 images are more than 4 times as long as wide: crops show only small parts",
        "22 images are too few to train an encoder from scratch: start from pretrained weights, or use "
        "pretrained weights without training",
    )


@pytest.mark.parametrize(("count", "words"), [(600, "600 images are few to train"), (1000, "")])
def test_how_few_images_are_few(count: int, words: str) -> None:
    warnings = [
        text for text in inspect_source(noise(count), at_most=2).warnings if "to train an encoder" in text
    ]
    assert [text[: len(words)] for text in warnings] == [words] * bool(words)


def test_inspection_of_classes_and_of_a_sample() -> None:
    source = noise(4000)
    assert np.bincount(source.labels).tolist() == [400] * 10
    uneven = source.subset(np.flatnonzero((source.labels > 2) | (np.arange(4000) == 1)))
    found = inspect_source(uneven, at_most=50)
    assert (found.examined, found.count, found.formats) == (50, 2801, {"array": 50})
    assert found.sizes == ((6, 8), (6, 8), (6, 8))
    assert found.classes is not None and found.classes["1"] == 1 and found.classes["9"] == 400
    assert found.warnings == (
        "50 of 50 images have a side shorter than 16 pixels",
        "2 of 10 classes are empty, for example 0",
        "the classes are unbalanced: 1 to 400 images",
    )
