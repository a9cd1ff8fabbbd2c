"""The commit of a record: that of the checkout, and whether its files were changed."""

import subprocess
from pathlib import Path

import pytest

from cacr.ledger.record import commit_of


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    said = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True
    )
    return said.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a package in src/cacr, one in a virtual environment, and a tag."""
    for package in ("src/cacr", ".venv/lib/python3/site-packages/cacr"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text("")
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "--message", "first")
    _git(tmp_path, "tag", "--annotate", "v1", "--message", "first")
    return tmp_path


def test_changed_files_are_told_and_new_records_are_none(checkout: Path) -> None:
    head = _git(checkout, "rev-parse", "HEAD")
    assert commit_of(checkout / "src/cacr") == head
    (checkout / "new.json").write_text("{}")
    assert commit_of(checkout / "src/cacr") == head
    (checkout / "src/cacr/__init__.py").write_text("changed = True\n")
    assert commit_of(checkout / "src/cacr") == f"{head}-dirty"


def test_the_commit_of_another_repository_is_not_taken(checkout: Path, tmp_path: Path) -> None:
    assert commit_of(checkout / ".venv/lib/python3/site-packages/cacr") == ""
    assert commit_of(tmp_path / "nowhere") == ""
