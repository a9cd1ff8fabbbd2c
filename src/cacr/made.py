"""Create settings from plain values, and report all wrong values at once."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from cacr.base_settings import Settings
from cacr.errors import SettingsError
from cacr.registry import nearest

S = TypeVar("S", bound=Settings)

MOST_SHOWN = 100
"""Largest number of characters of a wrong value that a message shows."""


def make(kind: type[S], values: Mapping[str, Any]) -> S:
    """Create settings from plain values (strings are parsed).

    Raises:
        SettingsError: names every wrong setting at once, and suggests names for unknown ones.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError(problems(kind, error)) from None


def make_what_fits(kind: type[S], values: Mapping[str, Any]) -> tuple[S, list[str]]:
    """Create settings with the default for every wrong value; also return what is wrong.

    Use this to check further before all problems are reported at once. If there are problems, do not use the settings.
    """
    try:
        return kind.model_validate(dict(values)), []
    except ValidationError as error:
        wrong = {str(item["loc"][0]) for item in error.errors()}
        right = {name: value for name, value in values.items() if name not in wrong}
        usable: S = kind.model_construct(**right)  # type: ignore[assignment]  # the plugin forgets which kind
        return usable, problems(kind, error)


def problems(kind: type[Settings], error: ValidationError) -> list[str]:
    """What is wrong, one line per setting."""
    found: dict[str, str] = {}
    for item in error.errors():
        name = str(item["loc"][0])
        if item["type"] == "extra_forbidden":
            found[name] = f"there is no setting {name!r}; {nearest(name, list(kind.named()))}"
        elif item["type"] == "missing":
            about = kind.named()[name].description
            found[name] = f"{name} is missing" + (f": {about}" if about else "")
        else:
            # A value that may also be 'auto' fails twice; keep the first reason, which is clearer.
            found.setdefault(name, f"{name} {reason(item)}")
    return list(found.values())


def reason(item: Mapping[str, Any]) -> str:
    """The reason why a value is wrong, as pydantic gives it, to follow the name of the setting."""
    text: str = item["msg"]
    got = repr(item["input"])
    shown = got if len(got) <= MOST_SHOWN else f"{got[:MOST_SHOWN]} ..."
    message = text.removeprefix("Value error, ").replace("Input should be", "must be", 1)
    return f"{message} (got {shown})"
