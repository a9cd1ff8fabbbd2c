"""Check arguments: a message names the argument and says what is allowed."""

import math
from typing import Any, get_args


def check_positive(**values: float) -> None:
    """Check that every value is a finite number above 0."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a number above 0, not {value!r}")


def check_not_negative(**values: float) -> None:
    """Check that every value is a finite number, 0 or above."""
    for name, value in values.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be 0 or above, not {value!r}")


def check_share(**values: float) -> None:
    """Check that every value is in [0, 1)."""
    for name, value in values.items():
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, not {value!r}")


def check_choice(choices: Any, **values: str) -> None:
    """Check that every value is one of the choices of a ``Literal``."""
    for name, value in values.items():
        if value not in get_args(choices):
            raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, not {value!r}")
