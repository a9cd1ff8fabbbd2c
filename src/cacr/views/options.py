"""Parse values of settings from text of the command line."""

from typing import Any

_LARGEST = 1e30
"""Largest absolute value of a number; views are float32, which ends not far above it."""

_PAIRS = {"scale", "ratio", "blur_sigma"}
_OF_CHANNELS = {"mean", "std"}
_WHOLE = {"size", "resize", "blur_kernel"}
_NAMES = {"interpolation"}
_FLAGS = {"upright"}


def _numbers(value: Any, count: int | None) -> tuple[float, ...]:
    """``count`` numbers; any number of them if ``count`` is None, one per channel."""
    parts = value.split(",") if isinstance(value, str) else value
    try:
        numbers = tuple(float(part) for part in parts)
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    wrong = not numbers if count is None else len(numbers) != count
    if wrong or not all(abs(number) <= _LARGEST for number in numbers):
        shown, many = repr(value)[:80], count or "3"
        raise ValueError(f"{shown} is not {many} numbers; write them as {','.join(['0.5'] * int(many))}")
    return numbers


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ValueError(f"{repr(value)[:80]} is not true or false")


def parse(name: str, value: Any) -> Any:
    """The value of the setting ``name``; text is parsed, and other values are checked for their shape.

    Raises:
        ValueError: The value does not fit the setting.
    """
    if name == "scale" and (value is None or value == "none"):
        return None
    if name in _PAIRS:
        return _numbers(value, 2)
    if name in _OF_CHANNELS:
        return _numbers(value, None)
    if name in _NAMES:
        return str(value)
    if name in _FLAGS:
        return _flag(value)
    number = _numbers((value,), 1)[0]
    if name in _WHOLE:
        if number != int(number):
            raise ValueError(f"{repr(value)[:80]} is not an integer")
        return int(number)
    return number
