"""The settings of a run before it starts: given values for a new run, the stored ones for a resumed run."""

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
from cacr.training.settings.check import check_settings
from cacr.training.settings.continued import continued
from cacr.training.settings.layers import completed_by, with_recipe

LENGTH = frozenset({"epochs", "max_steps"})
"""Settings of the length of a run. ``time`` chooses both; a value that is given later replaces both."""

_NOT_LIKE = (RESUMABLE - LENGTH) | {"seed", "images"}
"""Settings that ``--like`` does not copy: the images, the seed, and where the run computes."""


def settings_of_new(run: RunFolder, values: Mapping[str, Any], like: Path | None = None) -> PretrainSettings:
    """The settings of a new run, checked; ``auto`` is not replaced yet.

    Raises:
        UserError: the folder is not empty, or settings are wrong.
    """
    run.require_new()
    return _with_absolute_paths(checked(completed(values, like)))


def checked(values: Mapping[str, Any]) -> PretrainSettings:
    """Settings of a new run, including those that follow from its initial weights.

    Raises:
        UserError: values or weights are wrong.
    """
    return continued(check_settings(values))


def completed(values: Mapping[str, Any], like: Path | None = None) -> dict[str, Any]:
    """Given values, completed by a recipe or by the run ``like``, and by the method.

    Raises:
        SettingsError: some of them contradict each other.
    """
    given = {name for name, value in values.items() if value not in (None, "auto")}
    problems = [
        f"time and {name} both set the length of the run: give only one of them"
        for name in sorted(LENGTH & given)
        if "time" in given
    ]
    problems += [
        f"--like copies the settings of {like}, including its steps, and cannot be combined with {name}: "
        "give only one of them"
        for name in ("time", "recipe")
        if like is not None and name in given
    ]
    if problems:
        raise SettingsError(problems)
    if like is not None:
        return completed_by(_settings_like(like, given), values)
    merged = with_recipe(values)
    return {name: merged[name] for name in merged if name not in LENGTH} if "time" in given else merged


def _settings_like(run: Path, given: set[str]) -> dict[str, Any]:
    """The settings of another run, without those that given values replace."""
    replaced: set[str] = set()
    if LENGTH & given:
        replaced |= LENGTH | {"time"}
    if "base_lr" in given:
        replaced.add("lr")
    stored = Run.open(run).settings.model_dump()
    return {name: value for name, value in stored.items() if name not in _NOT_LIKE | replaced}


def settings_of_resumed(run: RunFolder, values: Mapping[str, Any]) -> PretrainSettings:
    """The settings of a resumed run; only some of them may be changed."""
    stored = Run.open(run.path).settings
    given = {name: value for name, value in values.items() if value != "auto"}
    chosen = {"epochs": "auto", "max_steps": None} if stored.time and LENGTH & given.keys() else {}
    merged = _with_absolute_paths(check_settings({**stored.model_dump(), **chosen, **given}))
    changed = [
        name
        for name in PretrainSettings.model_fields
        if name not in RESUMABLE and getattr(merged, name) != getattr(stored, name)
    ]
    if changed:
        raise SettingsError(
            [
                f"{name} was {getattr(stored, name)!r} in {run.path} and cannot be changed to "
                f"{getattr(merged, name)!r} when the run is resumed"
                for name in changed
            ]
        )
    return merged


def _with_absolute_paths(settings: PretrainSettings) -> PretrainSettings:
    """Settings with absolute paths, so that the run can be resumed from any folder."""
    changed: dict[str, Any] = {}
    if settings.data not in SOURCES:
        changed["data"] = _absolute(settings.data)
    if settings.images is not None:
        changed["images"] = _absolute(settings.images)
    if settings.labels is not None:
        changed["labels"] = Path(_absolute(str(settings.labels)))
    tower = settings.framework_options.get("text_encoder", CLIP)
    if tower != CLIP:
        changed["framework_options"] = {**settings.framework_options, "text_encoder": _absolute(tower)}
    return settings.model_copy(update=changed)


def _absolute(text: str) -> str:
    """The same with an absolute path, if it names something that exists, perhaps after a prefix such as ``except:``."""
    prefix, _, rest = text.partition(":")
    for before, name in (("", text), (f"{prefix}:", rest)):
        if name and kind_of(path := user_path(name)) is not None:
            return f"{before}{path.resolve()}"
    return text
