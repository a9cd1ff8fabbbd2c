"""docs/explanation/objective.md names a property for each claim; each property has a test where the page says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "objective.md").read_text(encoding="utf-8")
MOST = "tests/losses/test_properties.py"


def _tested(file: str) -> set[int]:
    names = re.findall(r"^def test_p(\d+)_", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    return {int(name) for name in names}


def test_every_property_has_a_test_in_the_file_that_the_page_names() -> None:
    elsewhere = {
        int(name): file for name, file in re.findall(r"P(\d+) \([^)]*\)\s+in\s+`(tests/[^`]+)`", PAGE)
    }
    first, last = map(int, re.findall(r"property P(\d+)-P(\d+)", PAGE)[0])
    for number in range(first, last + 1):
        assert number in _tested(elsewhere.get(number, MOST)), f"P{number} has no test"
    assert {int(name) for name in re.findall(r"\bP(\d+)\b", PAGE)} <= set(range(first, last + 1))
    assert f"`{MOST}`" in PAGE
