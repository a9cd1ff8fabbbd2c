"""The tutorials run, and what they print reaches their pages."""

import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
PAGES = sorted(page.stem for page in TUTORIALS.glob("*.md") if page.stem != "index")


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tutorials", TUTORIALS / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = """# Sums
```bash
echo 3 > three; echo written
```

```text
old
```

Python sees the folder and keeps its names:

```python
three = int(open("three").read())
```

```python
print(three + 4)
shutil = __import__("shutil").copyfile("three", "sum.png")
```

```text
```

![sum](pictures/sum.png)
"""


def test_output_replaces_the_block_below_the_code(runner: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "sums.md"
    page.write_text(PAGE)
    runner.run_page(page, tmp_path / "work")
    expected = PAGE.replace("old\n", "written\n").replace("```text\n```", "```text\n7\n```")
    assert page.read_text() == expected
    assert (tmp_path / "pictures" / "sum.png").read_text() == "3\n"


def test_a_block_that_fails_leaves_the_page_as_it_was(runner: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "sums.md"
    page.write_text(PAGE.replace("echo 3", "no-such-command || exit 3; echo 3"))
    before = page.read_text()
    with pytest.raises(RuntimeError, match="exit code 3 of"):
        runner.run_page(page, tmp_path / "work")
    assert page.read_text() == before


def test_a_long_output_is_cut_in_its_middle(runner: ModuleType) -> None:
    first, last = runner.LINES
    lines = [f"line {number}" for number in range(first + last + 2)]
    cut = runner.shortened("\n".join(lines)).splitlines()
    assert cut == [*lines[:first], "...", *lines[-last:]]
    whole = lines[: first + last + 1]
    assert runner.shortened("\n".join(whole)).splitlines() == whole


def test_folders_of_the_data_are_at_hand(runner: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "data" / "pets").mkdir(parents=True)
    (tmp_path / "data" / "pets" / "cat.txt").write_text("purr")
    page = tmp_path / "cats.md"
    page.write_text("```bash\ncat pets/cat.txt\n```\n\n```text\n```\n")
    runner.run_page(page, tmp_path / "work", tmp_path / "data")
    assert "```text\npurr\n```" in page.read_text()


def test_pages_name_no_folder_of_the_machine(runner: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "pets").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cats").symlink_to(tmp_path / "elsewhere" / "pets")
    page = tmp_path / "cats.md"
    page.write_text("```bash\nrealpath cats/cat.txt here; echo ~/there\n```\n\n```text\n```\n")
    runner.run_page(page, tmp_path / "work", tmp_path / "data")
    assert "```text\ncats/cat.txt\nhere\n~/there\n```" in page.read_text()


@pytest.mark.parametrize("name", PAGES)
def test_every_tutorial_shows_what_it_printed(name: str) -> None:
    text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    assert "```text\n" in text
    assert "```text\n```" not in text, "run it: make tutorials"
    for picture in re.findall(r"\]\(pictures/([\w.-]+)\)", text):
        assert (TUTORIALS / "pictures" / picture).exists()


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize("name", ["just-the-loss", "new-objective", "cluster"])
def test_tutorials_without_data_run(runner: ModuleType, name: str, tmp_path: Path) -> None:
    if name == "just-the-loss":
        pytest.importorskip("pytorch_lightning")
    page = tmp_path / f"{name}.md"
    shutil.copyfile(TUTORIALS / page.name, page)
    runner.run_page(page, tmp_path / "work")
