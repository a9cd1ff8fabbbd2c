"""Files with odd names, and what only looks like a file."""

import os
import socket
from pathlib import Path

import pytest

from cacr.data import FileSource, Problem, UnreadableImageError, inspect_source, open_source, prepare
from cacr.errors import UserError
from tests.data.making import numbered

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")


def test_pipes_sockets_and_devices_are_no_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = numbered(tmp_path / "data", 3)
    os.mkfifo(folder / "z.jpg")
    (folder / "link.jpg").symlink_to(folder / "z.jpg")
    (folder / "device.jpg").symlink_to("/dev/zero")
    (folder / "image.png").symlink_to(folder / "000.png")
    (folder / "nowhere.png").symlink_to(folder / "nothing")
    (folder / "loop.png").symlink_to(folder / "loop.png")
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.jpg")
        source = open_source(str(folder))
    assert isinstance(source, FileSource)
    names = [path.name for path in source.paths]
    assert names == ["000.png", "001.png", "002.png", "image.png", "loop.png", "nowhere.png"]
    left_out = [Path(problem.where).name for problem in prepare(source, max_unreadable=0.5).problems]
    assert left_out == ["loop.png", "nowhere.png"]


def test_a_folder_of_pipes_alone_holds_no_images(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "z.jpg")
    with pytest.raises(UserError, match=r"has no images .*found 1 pipe, socket or device"):
        open_source(str(tmp_path))


def test_a_pipe_that_a_list_names_is_unreadable(tmp_path: Path) -> None:
    numbered(tmp_path, 1)
    os.mkfifo(tmp_path / "z.jpg")
    source = FileSource("list", tmp_path, ["000.png", "z.jpg"])
    reason = "a pipe, socket or device, not a file"
    assert [p.reason for p in prepare(source, max_unreadable=0.5).problems] == [reason]
    assert [p.reason for p in inspect_source(source).unreadable] == [reason]
    with pytest.raises(UnreadableImageError, match=reason):
        source.read(1)


def test_a_problem_takes_one_line_whatever_the_file_is_called() -> None:
    problem = Problem(0, "a\nb\r\x1b[31m\x85\u2028é漢\udcff.png", "not\nan image")
    assert str(problem) == r"a\nb\r\x1b[31m\x85\u2028é漢\xff.png: not\nan image"
    assert str(Problem(0, "C:\\new\\x.png", "why")) == "C:\\new\\x.png: why"


def test_odd_names_are_escaped_wherever_a_person_reads_them(tmp_path: Path) -> None:
    (tmp_path / "two\nlines.png").write_bytes(b"no image")
    for name in ("copy\n1.png", "copy\n2.png"):
        (tmp_path / name).write_bytes((numbered(tmp_path / "other", 1) / "000.png").read_bytes())
    source = open_source(f"images:{tmp_path}")
    index = [path.name for path in source.paths].index("two\nlines.png")
    with pytest.raises(UnreadableImageError) as caught:
        source.read(index)
    assert str(caught.value).startswith(f"{tmp_path}/two\\nlines.png: ")
    found = inspect_source(source)
    assert "\n" not in "".join([*map(str, found.unreadable), *found.duplicates[0]])
    assert "\n" not in "".join(map(str, prepare(source, max_unreadable=0.5).problems))
