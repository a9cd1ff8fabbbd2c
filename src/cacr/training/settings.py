"""The settings of a run before it starts: of a new one from what was asked for, of a resumed one from its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cacr.config import RESUMABLE, PretrainSettings
from cacr.data import SOURCES
from cacr.encoders.text import CLIP
from cacr.errors import SettingsError
from cacr.reading.files import kind_of, user_path
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.training.check import check_settings
from cacr.training.continued import continued
from cacr.training.layers import above, with_method, with_recipe

LENGTH = frozenset({"epochs", "max_steps"})
"""Settings that say how long a run is. A time chooses both of them, and one that is given later replaces both."""

_NOT_LIKE = (RESUMABLE - LENGTH) | {"seed", "images"}
"""Settings that a run does not take from another: they say on which images, from which seed and where it runs."""


def settings_of_new(run: RunFolder, values: Mapping[str, Any], like: Path | None = None) -> PretrainSettings:
    """What was asked for, all of it checked; ``auto`` is still among it.

    Raises:
        UserError: the folder holds something already, or settings are wrong.
    """
    run.require_new()
    return _with_absolute_path(checked(completed(values, like)))


def checked(values: Mapping[str, Any]) -> PretrainSettings:
    """Settings of a new run, with what the weights that it starts from decide.

    Raises:
        UserError: values or weights are wrong.
    """
    return continued(check_settings(values))


def completed(values: Mapping[str, Any], like: Path | None = None) -> dict[str, Any]:
    """The values that were given, above those of their recipe or of the run ``like``, and of their method.

    Raises:
        SettingsError: some of them exclude each other.
    """
    given = {name for name, value in values.items() if value not in (None, "auto")}
    problems = [
        f"time and {name} both say how long the run is: give one of them"
        for name in sorted(LENGTH & given)
        if "time" in given
    ]
    problems += [
        f"--like takes the settings of {like}, the steps among them, and cannot be combined with {name}: "
        "give one of them"
        for name in ("time", "recipe")
        if like is not None and name in given
    ]
    if problems:
        raise SettingsError(problems)
    if like is not None:
        return with_method(above(values, _settings_like(like, given)))
    merged = with_recipe(values)
    return {name: merged[name] for name in merged if name not in LENGTH} if "time" in given else merged


def _settings_like(run: Path, given: set[str]) -> dict[str, Any]:
    """What another run learned with, without what values that are given replace as a whole."""
    replaced: set[str] = set()
    if LENGTH & given:
        replaced |= LENGTH | {"time"}
    if "base_lr" in given:
        replaced.add("lr")
    stored = Run.open(run).settings.model_dump()
    return {name: value for name, value in stored.items() if name not in _NOT_LIKE | replaced}


def settings_of_resumed(run: RunFolder, values: Mapping[str, Any]) -> PretrainSettings:
    """The settings of the run, with those replaced that may change; others must be what they were."""
    stored = Run.open(run.path).settings
    given = {name: value for name, value in values.items() if value != "auto"}
    chosen = {"epochs": "auto", "max_steps": None} if stored.time and LENGTH & given.keys() else {}
    merged = check_settings({**stored.model_dump(), **chosen, **given})
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
    """Folders by their full paths, so that the run can be resumed from anywhere."""
    changed: dict[str, Any] = {}
    if settings.data not in SOURCES and kind_of(path := user_path(settings.data)) is not None:
        changed["data"] = str(path.resolve())
    tower = settings.framework_options.get("text_encoder", CLIP)
    if tower != CLIP and kind_of(path := user_path(tower)) is not None:
        changed["framework_options"] = {**settings.framework_options, "text_encoder": str(path.resolve())}
    return settings.model_copy(update=changed)
