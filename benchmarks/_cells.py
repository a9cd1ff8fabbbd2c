"""Cells of a benchmark: one small JSON file each, which several processes can work on together."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def once(file: Path, work: Path, make: Callable[[], dict[str, Any]]) -> None:
    """Make a cell and write its file, unless it is there or another process makes it.

    Args:
        file: the cell.
        work: a folder that the processes share, for the claims.
        make: computes what the file is to hold; if it raises, the cell is free again.
    """
    claimed = work / "claimed" / file.stem
    claimed.parent.mkdir(parents=True, exist_ok=True)
    if file.exists():
        return
    try:
        claimed.touch(exist_ok=False)
    except FileExistsError:
        return
    try:
        result = make()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result, indent=1) + "\n")
    finally:
        claimed.unlink()
