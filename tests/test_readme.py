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


@pytest.mark.trains
def test_every_snippet_runs(
    photos: Path, classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, because they build on each other, beside the data that the README speaks of."""
    shutil.copytree(photos, tmp_path / "photos")
    shutil.copytree(classes, tmp_path / "labelled")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cacr.commands.doctor_speed.MEASURE_SECONDS", 0.05)
    for number, (language, code) in enumerate(BLOCKS):
        if language == "python":
            exec(compile(code, f"README.md, block {number}", "exec"), {"__name__": "readme"})
        else:
            assert language == "bash"
            for line in code.strip().splitlines():
                _run(line, monkeypatch)


def _run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = shlex.split(line, comments=True)
    if command[0] == ".":  # what `make demo` made
        made = f"\nVENV ?= {command[1].removesuffix('/bin/activate')}\n"
        assert made in (ROOT / "Makefile").read_text(encoding="utf-8")
        return
    if command[0] == "make":  # these two are what continuous integration runs
        recipe = ["make", "--dry-run", *command[1:]]
        printed = subprocess.run(recipe, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        if command[1] == "demo":
            assert re.search(r"/bin/cacr demo$", printed, re.MULTILINE), "options that the command must know"
        return
    assert command[0] == "cacr"
    if command[1] == "pretrain":  # the same command, on fewer steps of a narrower encoder
        place = command.index("--time")
        command = command[:place] + command[place + 2 :] + SHORTER
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert not caught.value.code, line
    if command[1] == "select":
        _label_a_few(Path(command[-1]))


def _label_a_few(selected: Path) -> None:
    """What the reader does by hand: fill in the column ``label`` of the first ten rows."""
    heading, *rows = selected.read_text(encoding="utf-8").splitlines()
    assert heading == "path,label,score"
    filled = [row.replace(",,", f",{'ab'[n % 2]},") if n < 10 else row for n, row in enumerate(rows)]
    selected.write_text("\n".join([heading, *filled]), encoding="utf-8")


def test_the_readme_has_all_its_parts() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [language for language, _ in BLOCKS].count("python") >= 2
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    assert len(targets) > 5
    for target in targets:
        assert (ROOT / target).exists(), target
