"""Folders of images: what is found, and when sub-folders are classes."""

import os
from pathlib import Path

import numpy as np
import pytest

from cacr.data import MissingPartError, open_source
from cacr.errors import UserError
from tests.data.making import picture, save


def names(folder: Path, spec: str | None = None, **options: str) -> list[str]:
    source = open_source(spec or str(folder), **options)  # type: ignore[arg-type]
    return [Path(source.describe(index)).relative_to(folder).as_posix() for index in range(len(source))]


def test_nested_images_of_mixed_formats_have_no_labels(tmp_path: Path) -> None:
    for name in ("b.jpg", "a/x.PNG", "a/deep/er/y.webp", "c.tiff"):
        save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not an image")
    source = open_source(str(tmp_path))
    assert names(tmp_path) == ["a/deep/er/y.webp", "a/x.PNG", "b.jpg", "c.tiff"]
    assert source.labels is None and source.class_names is None and source.class_counts() is None
    assert source.name == str(tmp_path)
    assert [sample.target for sample in source] == [None] * 4
    assert np.array_equal(np.asarray(source.read(1)), np.asarray(picture()))


def test_sub_folders_one_deep_are_classes(tmp_path: Path) -> None:
    for name in ("dog/1.png", "cat/1.png", "cat/2.png"):
        save(tmp_path / name)
    (tmp_path / "empty").mkdir()
    source = open_source(str(tmp_path))
    assert source.class_names == ("cat", "dog")
    assert source.labels is not None and source.labels.tolist() == [0, 0, 1]
    assert source.class_counts() == {"cat": 2, "dog": 1}
    assert [sample.target for sample in source] == [0, 0, 1]
    assert "images:" in source.notes[0]


@pytest.mark.parametrize(
    "files",
    [("only/1.png", "only/2.png"), ("a/1.png", "b/1.png", "loose.png"), ("a/1.png", "b/deeper/1.png")],
)
def test_anything_else_has_no_classes(tmp_path: Path, files: tuple[str, ...]) -> None:
    for name in files:
        save(tmp_path / name)
    assert open_source(str(tmp_path)).labels is None


def test_the_rule_can_be_overruled(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/deeper/1.png", "loose.png"):
        save(tmp_path / name)
    forced = open_source(f"imagefolder:{tmp_path}")
    assert forced.class_names == ("a", "b") and len(forced) == 2
    assert forced.notes == (f"1 images directly in {tmp_path} belong to no class and are left out",)
    (tmp_path / "loose.png").unlink()
    assert open_source(f"images:{tmp_path}").labels is None


def test_train_and_test_folders_are_parts(tmp_path: Path) -> None:
    for name in (
        "train/a/1.png",
        "train/b/1.png",
        "train/c/1.png",
        "val/a/1.png",
        "val/c/2.png",
        "other/x.png",
    ):
        save(tmp_path / name)
    for part in ("pretrain", "train"):
        assert names(tmp_path, part=part) == ["train/a/1.png", "train/b/1.png", "train/c/1.png"]
    test = open_source(str(tmp_path), part="test")
    assert test.class_names == ("a", "b", "c")  # numbered as in train, though b has no test image
    assert test.labels is not None and test.labels.tolist() == [0, 2]
    save(tmp_path / "test/b/9.png")
    assert names(tmp_path, part="test") == ["test/b/9.png"]
    assert open_source(str(tmp_path), part="test").labels.tolist() == [1]  # type: ignore[union-attr]
    save(tmp_path / "test/zebra/9.png")
    with pytest.raises(UserError, match="zebra"):
        open_source(str(tmp_path), part="test")


def test_an_unsorted_test_folder_gives_way_to_val(tmp_path: Path) -> None:
    for name in ("train/a/1.png", "train/b/1.png", "val/a/1.png", "val/b/1.png", "test/1.png"):
        save(tmp_path / name)
    assert names(tmp_path, part="test") == ["val/a/1.png", "val/b/1.png"]


def test_a_lone_train_folder_is_the_train_part(tmp_path: Path) -> None:
    save(tmp_path / "train/a/1.png")
    save(tmp_path / "train/b/1.png")
    assert open_source(str(tmp_path)).class_names == ("a", "b")
    with pytest.raises(MissingPartError, match="neither test/ nor val/"):
        open_source(str(tmp_path), part="test")


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    save(tmp_path / "train/1.png")
    save(tmp_path / "bus/1.png")
    assert open_source(str(tmp_path)).class_names == ("bus", "train")


def test_a_plain_folder_has_no_test_part(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    with pytest.raises(MissingPartError, match="not divided"):
        open_source(str(tmp_path), part="test")


def test_messages_for_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        open_source(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="it has no files at all"):
        open_source(str(tmp_path))
    (tmp_path / "a.txt").touch()
    (tmp_path / "b.heic").touch()
    with pytest.raises(UserError, match=r"has no images .*found (1 \.txt, 1 \.heic|1 \.heic, 1 \.txt)"):
        open_source(str(tmp_path))
    with pytest.raises(UserError, match="is not a folder"):
        open_source(str(tmp_path / "a.txt"))


def test_hidden_files_are_left_out_and_heic_is_mentioned(tmp_path: Path) -> None:
    for name in ("a.jpg", "._a.jpg", ".hidden/b.jpg", "__MACOSX/c.jpg"):
        save(tmp_path / name)
    (tmp_path / "phone.HEIC").touch()
    assert names(tmp_path) == ["a.jpg"]
    assert open_source(str(tmp_path)).notes == (
        "1 HEIC files are left out; convert them to JPEG to use them",
    )


def test_links_are_followed_once(tmp_path: Path) -> None:
    save(tmp_path / "far/away/x.png")
    save(tmp_path / "data/a.png")
    (tmp_path / "data/link").symlink_to(tmp_path / "far/away")
    (tmp_path / "data/loop").symlink_to(tmp_path / "data")
    assert names(tmp_path / "data") == ["a.png", "link/x.png"]


def test_names_need_not_be_unicode(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9.png"
    save(tmp_path / "plain.png")
    os.rename(tmp_path / "plain.png", raw)  # noqa: PTH104
    source = open_source(str(tmp_path))
    assert source.read(0).size == (24, 16)


def test_a_subset_keeps_files_and_labels_together(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/3.png", "b/4.png"):
        save(tmp_path / name)
    source = open_source(str(tmp_path)).subset(np.array([3, 0, 2])).subset(np.array([0, 2]))
    assert [Path(source.describe(index)).name for index in range(2)] == ["4.png", "3.png"]
    assert source.labels is not None and source.labels.tolist() == [1, 1]
    assert source.class_counts() == {"a": 0, "b": 2}


def test_classes_are_renumbered_by_name(tmp_path: Path) -> None:
    for name in ("b/1.png", "c/1.png"):
        save(tmp_path / name)
    source = open_source(str(tmp_path))
    other = source.renumbered(["c", "a", "b"])
    assert other.labels is not None and other.labels.tolist() == [2, 0]
    assert source.labels is not None and source.labels.tolist() == [0, 1]
    with pytest.raises(UserError, match="lacks"):
        source.renumbered(["a", "b"])
