"""Files and functions that can be read in one sitting."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import cacr

PACKAGE = Path(cacr.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 60
"""Of a function, its signature and its docstring aside."""

MOST_IMPORTS = 15
"""Modules of the package that one of them imports."""

NOT_OURS = {"cacr.training.processes.fabric"}
"""Modules that only import another package, in a better way; packages of others do not count."""

MOST_FILE_LINES = 400


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """Names of functions and the lines of their bodies."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.name, 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


def _imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, wherever in the file; of a package its names count as one."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cacr"):
            found.add(str(node.module))
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("cacr")}
    return found - NOT_OURS


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_FILE_LINES
    assert not {name: lines for name, lines in _functions(path) if lines > MOST_LINES}
    # The functions with the commands' names, and the command line, are where everything comes together.
    if path.name not in ("api.py", "__init__.py"):
        assert len(_imports(path)) <= MOST_IMPORTS, sorted(_imports(path))
