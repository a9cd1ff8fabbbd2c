"""Every snippet of the README is run."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cacr import cli
from tests.conftest import TINY

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
SHORTER = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
SHORTER += ["--set", "max_steps=2"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, photos: Path, classes: Path) -> Path:
    """A folder with the data that the README speaks of; its snippets build on each other there."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(photos, folder / "photos")
    shutil.copytree(classes, folder / "labelled")
    return folder


@pytest.mark.parametrize("block", range(len(BLOCKS)), ids=lambda number: f"{number}-{BLOCKS[number][0]}")
def test_snippet(block: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    language, code = BLOCKS[block]
    monkeypatch.chdir(place)
    if language == "python":
        exec(compile(code, f"README.md, block {block}", "exec"), {"__name__": "readme"})
        return
    assert language == "bash"
    for line in code.strip().splitlines():
        command = shlex.split(line, comments=True)
        if command[0] == "make":  # these two are what continuous integration runs
            recipe = ["make", "--dry-run", *command[1:]]
            printed = subprocess.run(recipe, cwd=ROOT, check=True, capture_output=True, text=True).stdout
            if command[1] == "demo":
                assert re.search(r"/bin/cacr demo$", printed, re.MULTILINE), (
                    "options that the command must know"
                )
            continue
        assert command[0] == "cacr"
        if command[1] == "pretrain":
            command += SHORTER  # the same command, on fewer steps of a narrower encoder
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert not caught.value.code, line


def test_the_readme_has_all_its_parts() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [language for language, _ in BLOCKS].count("python") >= 2
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert len(targets) > 5
    for target in targets:
        assert (ROOT / target).exists(), target
