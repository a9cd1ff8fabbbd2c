"""Shared by several commands: options that come from the settings, and printing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cacr.base_settings import Settings
from cacr.config import EvaluateSettings, PretrainSettings
from cacr.errors import SettingsError
from cacr.reading.files import any_path
from cacr.reading.settings import parse_assignment, read_settings_file


def setting(kind: type[Settings], name: str) -> Any:
    """The command-line option of a setting; its help, default and checks come from ``config.py``."""
    field = kind.model_fields[name]
    about = field.description or ""
    default = "" if field.default is None or field.is_required() else f" (default: {field.default})"
    return typer.Option(
        "--" + name.replace("_", "-"),
        help=f"{about[:1].upper()}{about[1:]}{default}.",
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
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting by name (see `cacr list settings`; of evaluate: `cacr list evaluation` and "
        "`protocols`); may be repeated.",
    ),
]
DataRoot = Annotated[str | None, pretrain_setting("data_root")]
ImagesOption = Annotated[str | None, pretrain_setting("images")]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        parser=lambda text: any_path(str(text)),
        metavar="FILE",
        help="CSV file with columns path and label (default: the labels of the data itself).",
    ),
]
Download = Annotated[bool, typer.Option("--download", help="Allow downloads of data sets and weights.")]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", help="Store features of image files in ~/.cache/cacr, and reuse stored ones."
    ),
]


OPTION_FLAGS = ("text_encoder",)
"""Flags of ``cacr pretrain`` that are options of a framework."""


def path(text: object) -> Path:
    """A path as the user typed it, with ``~`` expanded: a shell does not expand it in ``--out=~/runs/a``."""
    return any_path(str(text))


def given(assignments: list[str] | None, **flags: Any) -> dict[str, Any]:
    """The settings that were given, from flags and ``--set``."""
    values = {name: value for name, value in flags.items() if value is not None and value is not False}
    return values | dict(parse_assignment(text) for text in assignments or [])


def settings_of_run(
    context: typer.Context, assignments: list[str] | None, config: Path | None
) -> dict[str, Any]:
    """Settings given for a run: from a file, and from flags and ``--set``, which override the file."""
    known = {*PretrainSettings.model_fields, *OPTION_FLAGS}
    flags = {name: value for name, value in context.params.items() if name in known}
    return (read_settings_file(config) if config else {}) | given(assignments, **flags)


def keywords(values: Mapping[str, Any], *taken: str) -> Mapping[str, Any]:
    """Settings from a file or from ``--set``, as keyword arguments of a function.

    Args:
        values: settings by name; in a file, names may not be strings.
        taken: names of the function's other arguments, which are not settings.

    Raises:
        SettingsError: names the entries that cannot be settings.
    """
    wrong = [name for name in values if not isinstance(name, str) or name in taken]
    if wrong:
        raise SettingsError([f"there is no setting {name!r}; see `cacr list settings`" for name in wrong])
    return values


def show(thing: Any) -> None:
    """Print a text or a table."""
    from cacr.terminal import CleanConsole

    # The terminal breaks long lines, so that a copied line stays one line.
    CleanConsole().print(thing, soft_wrap=isinstance(thing, str))
