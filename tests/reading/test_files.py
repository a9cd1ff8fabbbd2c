"""Only regular files are opened, and only as much of them as such a file can have."""

import os
from pathlib import Path

import pytest

from cacr.data import open_source
from cacr.decode import read_rgb
from cacr.encoders import load_encoder
from cacr.errors import UnreadableImageError, UserError
from cacr.reading import files
from cacr.reading.files import kind_of, numbered_lines, open_file, read_bytes, read_text, user_path
from cacr.reading.settings import read_settings_file

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")


def test_what_lies_at_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert [kind_of(tmp_path / name) for name in ("file", "link", ".", "nothing", "file/below")] == [
        "file",
        "file",
        "folder",
        None,
        None,
    ]
    with pytest.raises(UserError, match=r"cannot access xxx.*too long"):
        kind_of(Path("x" * 5000))


@needs_pipes
@pytest.mark.parametrize("read", [open_file, read_bytes, read_text, lambda path: list(numbered_lines(path))])
def test_pipes_and_folders_are_not_waited_for(read: object, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, what in (
        ("pipe", "is a pipe, socket or device"),
        (".", "is a folder"),
        ("nothing", "there is no file"),
    ):
        with pytest.raises(UserError, match=what):
            read(tmp_path / name)  # type: ignore[operator]


@needs_pipes
def test_commands_meet_pipes_where_files_belong(tmp_path: Path) -> None:
    for name in ("a.yaml", "a.safetensors", "a.npz", "a.npy", "a.jsonl", "a.tar", "a.jpg"):
        os.mkfifo(tmp_path / name)
    for read in (
        lambda: read_settings_file(tmp_path / "a.yaml"),
        lambda: load_encoder(tmp_path / "a.safetensors"),
        lambda: open_source(str(tmp_path / "a.npz")),
        lambda: open_source(str(tmp_path / "a.npy")),
        lambda: open_source(str(tmp_path / "a.jsonl")),
        lambda: open_source(f"wds:{tmp_path}/a.tar"),
    ):
        with pytest.raises(UserError, match=r"pipe, socket or device|are missing"):
            read()
    with pytest.raises(UnreadableImageError, match="pipe, socket or device"):
        read_rgb(tmp_path / "a.jpg", "a.jpg")


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    with path.open("wb") as file:
        file.truncate(100 * 2**30)  # a hundred gigabytes of zeros that take no place
    with pytest.raises(UserError, match=r"settings\.yaml has more than 1,048,576 bytes"):
        read_settings_file(path)


def test_text_is_utf_8_and_lines_are_of_a_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n  two  \n\xff")
    with pytest.raises(UserError, match=r"a\.txt is not UTF-8 text"):
        read_text(path)
    lines = numbered_lines(path)
    assert [next(lines), next(lines)] == [(1, "one"), (3, "two")]
    with pytest.raises(UserError, match=r"a\.txt, line 4: not UTF-8 text"):
        next(lines)
    monkeypatch.setattr(files, "MOST_LINE", 4)
    path.write_bytes(b"four\nfive!\n")
    with pytest.raises(UserError, match="line 1: longer than 4 bytes"):  # its end counts
        list(numbered_lines(path))


def test_names_that_cannot_be_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert user_path("~/photos") == Path("/home/somebody/photos")
    for text, why in (
        ("~nobody-of-this-name/x", "no such user"),
        ("a\0b", "zero byte"),
        (os.fsdecode(b"caf\xe9"), "not UTF-8"),
    ):
        with pytest.raises(UserError, match=why):
            user_path(text)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("~nobody-of-this-name", "no such user"),
        ("x" * 5000, "too long"),
        ("images:" + "x/" * 3000, "too long"),
        ("wds:{0..99999999999}.tar", "more than 1,000,000 shards"),
        ("wds:{" + "{a,b}" * 30 + ",c}", "more than 1,000,000 shards"),
        ("wds:" + "{a..z}" * 9, "more than 1,000,000 shards"),
        ("wds:" + "{a,b}" * 30, "more than 1,000,000 shards"),
        ("wds:" + "x" * 5000 + "{0..99999999999}.tar", "more than 1,000,000 shards"),
        ("wds:{0.." + "9" * 5000 + "}.tar", "more than 1,000,000 shards"),
        ("wds:{a,{b", "is not a pattern of files|are missing"),
        ("/dev/zero", "is not a folder"),
        ("npz:/dev/zero", "is a pipe, socket or device"),
        ("pairs:/tmp", "is a folder"),
    ],
)
def test_data_that_cannot_be_is_refused(spec: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        open_source(spec)
