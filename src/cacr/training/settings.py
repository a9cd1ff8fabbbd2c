"""The settings of a run before it starts: of a new one from what was asked for, of a resumed one from its folder."""

from collections.abc import Mapping
from typing import Any

from cacr.config import RESUMABLE, PretrainSettings
from cacr.data import SOURCES
from cacr.errors import SettingsError
from cacr.reading.files import kind_of, user_path
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.training.check import check_settings
from cacr.training.recipes import with_recipe


def settings_of_new(run: RunFolder, values: Mapping[str, Any]) -> PretrainSettings:
    """What was asked for, all of it checked; ``auto`` is still among it.

    Raises:
        UserError: the folder holds something already, or settings are wrong.
    """
    run.require_new()
    return _with_absolute_path(check_settings(with_recipe(values)))


def settings_of_resumed(run: RunFolder, values: Mapping[str, Any]) -> PretrainSettings:
    """The settings of the run, with those replaced that may change; others must be what they were."""
    stored = Run.open(run.path).settings
    given = {name: value for name, value in values.items() if value != "auto"}
    merged = check_settings({**stored.model_dump(), **given})
    changed = [
        name
        for name in PretrainSettings.model_fields
        if name not in RESUMABLE and getattr(merged, name) != getattr(stored, name)
    ]
    if changed:
        raise SettingsError(
            [
                f"{name} was {getattr(stored, name)!r} in {run.path}, a resumed run cannot change it to "
                f"{getattr(merged, name)!r}"
                for name in changed
            ]
        )
    return merged


def _with_absolute_path(settings: PretrainSettings) -> PretrainSettings:
    """A folder by its full path, so that the run can be resumed from anywhere."""
    if settings.data in SOURCES:
        return settings
    path = user_path(settings.data)
    return settings if kind_of(path) is None else settings.model_copy(update={"data": str(path.resolve())})
