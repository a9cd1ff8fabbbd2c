"""Finding and running the benchmarks."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cacr.errors import UserError
from cacr.registry import nearest

# A checkout has the scripts at its top level, a wheel inside the package.
_FOLDERS = (Path(__file__).parents[1] / "benchmarks", Path(__file__).parents[3] / "benchmarks")


def benchmarks() -> dict[str, Path]:
    """The scripts by name."""
    return {
        path.stem: path
        for folder in _FOLDERS
        for path in sorted(folder.glob("*.py"))
        if not path.stem.startswith("_")
    }


def run_benchmark(name: str, arguments: Sequence[str]) -> int:
    """Run a script with ``arguments`` in a new process; return its exit code."""
    scripts = benchmarks()
    if name not in scripts:
        raise UserError(f"there is no benchmark {name!r}; {nearest(name, list(scripts))}")
    return subprocess.run([sys.executable, str(scripts[name]), *arguments]).returncode


def summary(path: Path) -> str:
    """The first line of a script's docstring."""
    first = path.read_text(encoding="utf-8").lstrip().split("\n", 1)[0]
    return first.strip('"')


def benchmark_summaries() -> dict[str, str]:
    """What each script measures, by name."""
    return {name: summary(path) for name, path in benchmarks().items()}
