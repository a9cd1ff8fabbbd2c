"""Registries of objectives, frameworks, encoders, sources, presets and protocols by name, filled by a decorator."""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from inspect import getdoc
from typing import Generic, TypeVar

from cacr.errors import UserError

T = TypeVar("T")


def nearest(name: str, known: list[str], otherwise: str | None = None) -> str:
    """Suggest similar names; if there are none, return ``otherwise`` or list all known names."""
    lowered = {each.lower(): each for each in known}
    close = [lowered[each] for each in get_close_matches(name.lower(), lowered, n=3, cutoff=0.5)]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return otherwise or f"known: {', '.join(sorted(known))}"


class UnknownNameError(UserError, LookupError):
    """A name that is not in the registry."""


class Registry(Generic[T]):
    """Objects of one kind by name.

    Example:
        >>> shapes: Registry[type] = Registry("shape")
        >>> @shapes.register("disc")
        ... class Disc:
        ...     '''A filled circle.'''
        >>> shapes["disc"] is Disc
        True
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that registers an object as ``name``."""

        def remember(thing: T) -> T:
            if name in self._things:
                raise ValueError(f"there are two {self.kind}s with the name {name!r}")
            self._things[name] = thing
            return thing

        return remember

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise UnknownNameError(f"there is no {self.kind} {name!r}; {nearest(name, self.names())}")
        return self._things[name]

    def get(self, name: str) -> T | None:
        """The object with this name, or None."""
        return self._things[name] if name in self else None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._things  # a list instead of a name cannot be looked up

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._things)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._things)

    def summaries(self) -> dict[str, str]:
        """The first docstring line of each object, by name."""
        return {name: (getdoc(self._things[name]) or "").split("\n", 1)[0] for name in self.names()}
