"""Python on how-to and reference pages runs as it stands there, beside the folders that the pages speak of.

Tutorials are run by `make tutorials`, the README by ``test_readme``, the page for newcomers by ``test_pages``.
"""

import re
import shutil
from pathlib import Path

import pytest

import cacr
from tests.conftest import TINY, Once, save_images

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for page in sorted([*(ROOT / "docs/how-to").glob("*.md"), *(ROOT / "docs/reference").glob("*.md")])
    if "```python" in page.read_text(encoding="utf-8") and page.name != "coming-from.md"
]


@pytest.fixture
def folders(once: Once, classes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with photos, labelled ones, sets to transfer to, and two runs."""
    first, second, *_ = save_images(tmp_path / "photos", 66)
    settings = {"data": str(tmp_path / "photos"), "max_steps": 2, "held_out": 0, **TINY}
    run = once("run-on-photos", lambda folder: cacr.pretrain(out=folder, **settings))
    shutil.copy(first, tmp_path / "photos" / "a.jpg")  # what a file is, its content says
    shutil.copy(second, tmp_path / "photos" / "b.jpg")
    shutil.copytree(classes, tmp_path / "labelled")
    shutil.copytree(classes, tmp_path / "sets" / "fruit")
    for name in ("photos", "other"):
        shutil.copytree(run, tmp_path / "runs" / name)
    monkeypatch.chdir(tmp_path)
    # Hundreds of cells on CIFAR-10 are planned and looked for in the ledger, but not run.
    monkeypatch.setattr("cacr.ledger.reproduce.work_through", lambda *_, **__: True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.usefixtures("folders")
@pytest.mark.trains
def test_python_runs(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for number, code in enumerate(blocks):
        exec(compile(code, f"{page.name}, block {number}", "exec"), {"__name__": "page"})
