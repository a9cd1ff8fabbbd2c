"""Lists and labels as people write them: which image each name is, and what is said of the others."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cacr.data import ArraySource, known_labels, open_source
from cacr.data.named_images import UNKNOWN, choose_images, fully_labelled, labelled_images
from cacr.errors import UserError
from tests.conftest import save_images


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """Six images: two at the top, two in a/, two in b/ of which one has the name of one in a/."""
    save_images(tmp_path / "photos", 2)
    save_images(tmp_path / "photos" / "a", 2, seed=1)
    (tmp_path / "photos" / "b").mkdir()
    (tmp_path / "photos" / "image001.png").rename(tmp_path / "photos" / "top.png")
    (tmp_path / "photos" / "a" / "image001.png").rename(tmp_path / "photos" / "a" / "x, y.png")
    for name in ("x, y.png", "z.png"):
        (tmp_path / "photos" / "b" / name).write_bytes((tmp_path / "photos" / "image000.png").read_bytes())
    return tmp_path / "photos"


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_an_image_is_found_by_every_name_that_people_write(nested: Path, tmp_path: Path) -> None:
    source = open_source(str(nested))
    names = [path.relative_to(nested).as_posix() for path in source.paths]
    file = _write(
        tmp_path / "labels.csv",
        "File;Note;LABEL\n"
        f"{nested}/top.png;as printed;one\n"
        "a/image000.png;inside the folder;two\n"
        "elsewhere/photos/b/x, y.png;the end of a longer path;two\n"
        "C:\\old\\z.png;a file name that occurs once;one\n"
        "x, y.png;a file name that occurs twice;one\n"
        "missing.png;;one\n"
        "image000.png;at the top;\n",
    )
    known = known_labels(source, file)
    assert known is not None and known.class_names == ("one", "two")
    expected = {"top.png": 0, "a/image000.png": 1, "b/x, y.png": 1, "b/z.png": 0}
    assert known.labels.tolist() == [expected.get(name, UNKNOWN) for name in names]
    assert any("for 2 of its names: x, y.png, missing.png" in note for note in known.notes)
    assert any("4 of 6 images" in note for note in known.notes)
    labelled = labelled_images(source, file)
    assert labelled.class_counts() == {"one": 2, "two": 2}
    whole = fully_labelled(source, file)
    assert whole.labels is None and "not used in training" in whole.notes[-1]


def test_a_folder_brings_its_own_labels(nested: Path) -> None:
    assert known_labels(open_source(str(nested)), None) is None
    _write(nested / "labels.csv", "path,label\ntop.png,cat\na/image000.png,dog\n")
    source = open_source(str(nested))
    assert source.labels is None and len(source) == 6
    known = known_labels(source, None)
    assert known is not None and sorted(known.labels.tolist()) == [-1, -1, -1, -1, 0, 1]


def test_a_file_that_nobody_asked_for_stops_nothing(nested: Path) -> None:
    _write(nested / "labels.csv", "id,breed\ntop,cat\n")
    source = open_source(str(nested))
    known = known_labels(source, None)
    assert known is not None and len(known.where) == 0 and "no column for the labels" in known.notes[0]
    assert fully_labelled(source, None).labels is None and labelled_images(source, None).labels is None
    with pytest.raises(UserError, match="no column for the labels"):
        known_labels(source, nested / "labels.csv")
    _write(nested / "labels.csv", "id,class\ntop,cat\n")  # a file name without its suffix
    found = known_labels(source, None)
    assert found is not None and len(found.where) == 1


def test_lists_choose_images_or_leave_them_out(nested: Path, tmp_path: Path) -> None:
    chosen = _write(tmp_path / "list.csv", 'score,path\n1,top.png\n2,"b/x, y.png"\n3,no.png\n')
    names = {path.relative_to(nested).as_posix() for path in open_source(str(nested)).paths}
    some = open_source(str(nested), images=str(chosen))
    others = open_source(str(nested), images=f"except:{chosen}")
    kept, left = ({p.relative_to(nested).as_posix() for p in source.paths} for source in (some, others))
    assert kept == {"top.png", "b/x, y.png"} and left == names - kept
    assert any("for 1 of its names: no.png" in note for note in some.notes)
    text = _write(tmp_path / "list.txt", "top.png\n\nb/z.png\n")
    assert len(open_source(str(nested), images=str(text))) == 2
    arrays = ArraySource("noise", torch.zeros(5, 3, 8, 8, dtype=torch.uint8))
    numbers = _write(tmp_path / "numbers.txt", "3\nnoise[0]\n")
    assert choose_images(arrays, str(numbers)).notes[0].startswith("2 of 5 images")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("photo,label\na,b\n", "no column for the images: its first line is 'photo', 'label'"),
        ("path,kind\na,b\n", "no column for the labels"),
        ("path,label\nno.png,cat\n", "labels no image of"),
        (
            "path,label\ntop.png,cat\n./top.png,dog\n",
            "line 3: ./top.png is labelled 'dog' here, but 'cat' before",
        ),
        ("path,label\ntop.png,a,b\n", "line 2: 3 fields for 2 columns"),
        ("", "is empty"),
        ('path,label\n"top.png,cat\n', "cannot be read as CSV"),
    ],
)
def test_bad_tables_are_refused_in_one_message(
    nested: Path, tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        known_labels(open_source(str(nested)), _write(tmp_path / "labels.csv", content))


def test_bad_files_and_lists_are_refused(nested: Path, tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    everything = _write(tmp_path / "all.txt", "\n".join(str(path) for path in open_source(str(nested)).paths))
    nothing = _write(tmp_path / "nothing.txt", "no.png\n")
    for images, message in (
        ("missing.csv", "there is no file"),
        (str(tmp_path), "is a folder"),
        (str(tmp_path / "bytes.csv"), "not UTF-8 text"),
        (str(nothing), "none of the 1 names .* for example no.png"),
        (f"except:{everything}", "names every image"),
    ):
        with pytest.raises(UserError, match=message):
            open_source(str(nested), images=images)


def test_labels_of_all_images_serve_training(nested: Path, tmp_path: Path) -> None:
    source = open_source(str(nested))
    rows = "".join(f'"{path}",{path.parent.name}\n' for path in source.paths)
    labelled = fully_labelled(source, _write(tmp_path / "labels.csv", f"path,label\n{rows}"))
    assert labelled.class_counts() == {"a": 2, "b": 2, "photos": 2}
    assert np.array_equal(labelled.labels, [labelled.class_names.index(p.parent.name) for p in source.paths])
