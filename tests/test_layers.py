"""One direction of imports: an earlier group never imports a later one, and siblings leave each other alone."""

import ast
import re
from pathlib import Path

import cacr

PACKAGE = Path(cacr.__file__).parent
DRAWING = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def _drawn(first: str) -> list[set[str]]:
    """The groups of packages in the line of CONTRIBUTING.md that begins with ``first``."""
    (line,) = re.findall(rf"^    ({first}[ ,].*)$", DRAWING, re.MULTILINE)
    return [set(group.split(", ")) for group in line.split(" | ")]


(FOUNDATION,) = _drawn("errors")
GROUPS = [*_drawn("losses"), {"__main__"}]
TRAINING = _drawn("processes")


def _part(path: Path, package: Path = PACKAGE) -> str:
    return path.relative_to(package).parts[0].removesuffix(".py")


def _imports(path: Path, package: str = "cacr") -> set[str]:
    """The parts of a package that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == package:
            names = [f"{package}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        inside = [name.removeprefix(f"{package}.") for name in names if name.startswith(f"{package}.")]
        found |= {name.split(".")[0] for name in inside}
    return found


def _against_the_way(groups: list[set[str]], package: str = "cacr") -> list[str]:
    """Imports of a later group, or of another part of the same group."""
    folder, wrong = PACKAGE.joinpath(*package.split(".")[1:]), []
    for path in folder.rglob("*.py"):
        part = _part(path, folder)
        if part == "__init__":  # the lazy public names
            continue
        level = next((number for number, group in enumerate(groups) if part in group), -1)
        refused = set().union(*groups[max(level, 0) :]) - {part}
        wrong += [f"{path.relative_to(PACKAGE)} imports {name}" for name in _imports(path, package) & refused]
    return wrong


def test_every_part_has_its_group() -> None:
    parts = {_part(path) for path in PACKAGE.rglob("*.py")}
    assert parts - {"__init__"} == FOUNDATION | set().union(*GROUPS)
    parts = {_part(path, PACKAGE / "training") for path in (PACKAGE / "training").rglob("*.py")}
    assert parts - {"__init__"} == set().union(*TRAINING)


def test_imports_go_one_way() -> None:
    assert not _against_the_way(GROUPS)
    assert not _against_the_way(TRAINING, "cacr.training")


def test_losses_import_nothing_but_torch() -> None:
    allowed = {"torch", "cacr", "math", "collections", "typing", "dataclasses", "abc", "functools", "inspect"}
    allowed |= {"itertools", "contextlib", "types"}
    for path in (PACKAGE / "losses").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            assert {name.split(".")[0] for name in names} <= allowed, path
        assert _imports(path) <= {"losses", "registry", "errors"}, path
