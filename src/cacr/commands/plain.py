"""Commands whose help texts name values in words: nothing after a flag, and no type names of Python."""

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


class _Plain:
    """Names what an option takes, where the option itself does not."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, each option with the name of its value; a flag has none, and arguments have their names."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if isinstance(param, TyperOption) and param.metavar is None:
                param.metavar = "" if param.is_flag else "VALUE"
            elif isinstance(param, TyperArgument):
                param.display_type_rich = _no_type  # type: ignore[method-assign]
        return params


def _no_type(ctx: Any) -> None:
    """What stands between the name of an argument and its help."""


class PlainCommand(_Plain, TyperCommand):
    """One command."""


class PlainGroup(_Plain, TyperGroup):
    """The command of all commands."""
