"""The how-to page about data names every source, and its example runs."""

import re
from pathlib import Path

from cacr.data import SOURCES

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "data.md").read_text()


def test_the_page_names_every_source() -> None:
    table = PAGE.split("## Parts")[0]
    missing = [name for name in SOURCES if not re.search(rf"`{name}[:`]", table)]
    assert not missing


def test_the_example_runs() -> None:
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], names)
    assert names["images"].shape[1:] == (3, 28, 28)  # type: ignore[attr-defined]
