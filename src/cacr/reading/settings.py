"""Read settings as users write them: a YAML file, or ``name=value``."""

from pathlib import Path
from typing import Any

from cacr.errors import UserError
from cacr.reading.documents import parse_yaml, read_yaml


def read_settings_file(path: Path) -> dict[str, Any]:
    """Settings from a YAML file, or from the ``config.yaml`` of a run.

    The ``time`` of a run is dropped, because its number of steps is stored too.
    """
    values = read_yaml(path)
    stored = values.get("settings")
    if "format" in values and isinstance(stored, dict):
        return {name: value for name, value in stored.items() if name != "time"}
    return values


def parse_assignment(text: str) -> tuple[str, Any]:
    """Parse ``key=value`` of ``--set``; the value is read as YAML, so that numbers are numbers."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set takes name=value, got {text!r}")
    try:
        return key.strip(), parse_yaml(value)
    except ValueError:
        return key.strip(), value
