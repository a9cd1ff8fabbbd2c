"""What several commands share: options that come from the settings, and printing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cacr.config import EvaluateSettings, PretrainSettings, Settings
from cacr.errors import SettingsError
from cacr.reading.files import any_path
from cacr.reading.settings import parse_assignment, read_settings_file


def setting(kind: type[Settings], name: str) -> Any:
    """The option of a setting: its help and default come from ``config.py``, and so do its checks."""
    field = kind.model_fields[name]
    default = "" if field.default is None or field.is_required() else f" (default: {field.default})"
    return typer.Option(
        "--" + name.replace("_", "-"),
        help=f"{field.description}{default}",
        show_default=False,
        metavar="VALUE",
    )


def pretrain_setting(name: str) -> Any:
    """An option of ``cacr pretrain``."""
    return setting(PretrainSettings, name)


def evaluate_setting(name: str) -> Any:
    """An option of ``cacr evaluate``."""
    return setting(EvaluateSettings, name)


SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting by its name; may be repeated."),
]
DataRoot = Annotated[str | None, pretrain_setting("data_root")]
ImagesOption = Annotated[str | None, pretrain_setting("images")]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        parser=lambda text: any_path(str(text)),
        metavar="FILE",
        help="CSV file with columns path and label (default: the data's own labels).",
    ),
]
Download = Annotated[bool, typer.Option("--download", help="Allow downloads of data sets and weights.")]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", help="Keep features of files in ~/.cache/cacr, and use those kept there."
    ),
]


OPTION_FLAGS = ("text_encoder",)
"""Flags of ``cacr pretrain`` that are options of a framework."""


def path(text: object) -> Path:
    """A file or folder as the user names it: a shell leaves the ``~`` of ``--out=~/runs/a`` as it is."""
    return any_path(str(text))


def given(assignments: list[str] | None, **flags: Any) -> dict[str, Any]:
    """The settings that were given, from flags and ``--set``."""
    values = {name: value for name, value in flags.items() if value is not None and value is not False}
    return values | dict(parse_assignment(text) for text in assignments or [])


def settings_of_run(
    context: typer.Context, assignments: list[str] | None, config: Path | None
) -> dict[str, Any]:
    """The settings of a run that were given: from a file, and from flags and ``--set``, which win over it."""
    known = {*PretrainSettings.model_fields, *OPTION_FLAGS}
    flags = {name: value for name, value in context.params.items() if name in known}
    return (read_settings_file(config) if config else {}) | given(assignments, **flags)


def keywords(values: Mapping[str, Any], *taken: str) -> Mapping[str, Any]:
    """Settings from a file or from ``--set``, to be given to a function as its keyword arguments.

    Args:
        values: by name; a file may have names that are no text.
        taken: names of the function's own arguments, which are no settings.

    Raises:
        SettingsError: naming those that cannot be settings.
    """
    wrong = [name for name in values if not isinstance(name, str) or name in taken]
    if wrong:
        raise SettingsError([f"there is no setting {name!r}; see `cacr list`" for name in wrong])
    return values


def show(thing: Any) -> None:
    """Print a text as it is, or a table."""
    from cacr.terminal import CleanConsole

    # A line of text is left to the terminal to break, so that what is copied from it stays one line.
    CleanConsole().print(thing, soft_wrap=isinstance(thing, str))
