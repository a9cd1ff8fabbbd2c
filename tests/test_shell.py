"""Suggested commands can be pasted: whatever a folder is called, a shell reads the same words back."""

import re
import shlex
from pathlib import Path

import pytest

import cacr
from cacr.shell import resume_command, shell_words

NAMES = ["runs/c10", "my runs/th 1", "it's", "$HOME", "a;rm -rf b", "new\\line", "*", ""]


@pytest.mark.parametrize("name", NAMES)
def test_a_shell_reads_the_words_back(name: str) -> None:
    assert shlex.split(shell_words("cacr", "report", name)) == ["cacr", "report", name]
    assert shlex.split(resume_command(name)) == ["cacr", "pretrain", "--out", name, "--resume"]


def test_plain_names_stay_plain_and_control_characters_are_not_printed() -> None:
    assert resume_command(Path("runs/c10")) == "cacr pretrain --out runs/c10 --resume"
    assert "\x1b" not in shell_words("cacr", "report", "\x1b[2Jx")


def test_no_message_puts_a_path_into_a_command_by_itself() -> None:
    """A path of the user follows a command or an option in words of :mod:`cacr.shell` only."""
    by_hand = re.compile(r"(cacr [a-z]+|--(init|out|data|data-root|test-data)) \{")
    package = Path(cacr.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if by_hand.search(line)
    ]
    assert not found
