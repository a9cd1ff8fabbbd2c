"""Read JSON and YAML, and check it against a type."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError
from yaml.events import AliasEvent
from yaml.nodes import Node

from cacr.errors import UserError
from cacr.reading.files import kind_of, read_text

T = TypeVar("T")

MOST_YAML = 2**20
"""Largest settings file, in bytes."""

DEEPEST = 50
"""Largest depth of nested lists and mappings."""


def read_json(path: Path, kind: TypeAdapter[T], hint: str = "") -> T:
    """Read a JSON file as a value of a type; nothing is converted, and every wrong field is named.

    Args:
        path: the file.
        kind: the type.
        hint: end of the message about a damaged file: what the user can do.
    """
    return parse_json(read_text(path), kind, f"{path} is damaged", hint)


def read_json_if_any(path: Path, kind: TypeAdapter[T], hint: str = "") -> T | None:
    """Like :func:`read_json`; None if the file does not exist."""
    return None if kind_of(path) is None else read_json(path, kind, hint)


def parse_json(text: str, kind: TypeAdapter[T], what: str, hint: str = "") -> T:
    """Like :func:`read_json`, for text; ``what`` is the start of the message."""
    try:
        return kind.validate_json(text, strict=True)
    except ValidationError as error:
        raise UserError(f"{what}: {wrong_fields(error)}{f'; {hint}' if hint else ''}") from None


def wrong_fields(error: ValidationError) -> str:
    """Describe what is wrong with the first few wrong fields."""
    found = [
        f"{'.'.join(map(str, item['loc']))[:200]}: {item['msg']}".removeprefix(": ")
        for item in error.errors(include_input=False, include_url=False)
    ]
    return "; ".join(found[:5]) + (f"; and {len(found) - 5} more" if len(found) > 5 else "")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping of names to values."""
    try:
        values = parse_yaml(read_text(path, MOST_YAML))
    except ValueError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise UserError(f"{path} must consist of 'name: value' lines")
    return values


def parse_yaml(text: str) -> Any:
    """Plain values from YAML: only numbers, strings, booleans, lists and mappings.

    Dates are read as strings. Aliases are refused, because a short text with aliases can fill the memory. Nesting
    deeper than :data:`DEEPEST` is refused too.

    Raises:
        ValueError: says where the text is not valid YAML.
    """
    try:
        return yaml.load(text, _PlainLoader)  # the safe loader, made stricter
    except Exception as error:  # its constructors raise many kinds of errors
        raise ValueError(str(error) or type(error).__name__) from None


class _PlainLoader(yaml.SafeLoader):
    """YAML's safe loader without aliases, dates, sets, binary data and deep nesting."""

    _depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not supported: repeat the value instead")
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.YAMLError(f"more than {DEEPEST} levels of nesting")
        node: Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "map", "null", "seq", "str")}
_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _PLAIN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_PlainLoader.yaml_constructors = {
    tag: construct
    for tag, construct in yaml.SafeLoader.yaml_constructors.items()
    if tag in _PLAIN or tag is None  # None: the constructor that refuses all other tags
}
