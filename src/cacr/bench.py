"""Finding and running the benchmarks."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from cacr.errors import UserError
from cacr.registry import nearest

# In a checkout the scripts lie at its top; a wheel carries them inside the package.
_FOLDERS = (Path(__file__).parent / "benchmarks", Path(__file__).parents[2] / "benchmarks")


def benchmarks() -> dict[str, Path]:
    """The scripts by name."""
    return {
        path.stem: path
        for folder in _FOLDERS
        for path in sorted(folder.glob("*.py"))
        if not path.stem.startswith("_")
    }


def run_benchmark(name: str | None, arguments: Sequence[str]) -> int:
    """Run a script with ``arguments``, as if it were called; without a name, say which there are."""
    scripts = benchmarks()
    if name is None:
        for known, path in scripts.items():
            print(f"{known:<16} {summary(path)}")
        return 0
    if name not in scripts:
        raise UserError(f"there is no benchmark {name!r}; {nearest(name, list(scripts))}")
    sys.argv = [str(scripts[name]), *arguments]
    sys.path.insert(0, str(scripts[name].parent))
    runpy.run_path(str(scripts[name]), run_name="__main__")
    return 0


def summary(path: Path) -> str:
    """The first line of a script's docstring."""
    first = path.read_text(encoding="utf-8").lstrip().split("\n", 1)[0]
    return first.strip('"')
