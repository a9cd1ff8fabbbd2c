"""``config.yaml``: the settings of a run, and values that follow from them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cacr.config import RESUMABLE, ResolvedSettings
from cacr.errors import SettingsError, UserError
from cacr.files import check_format
from cacr.made import make
from cacr.reading.documents import read_yaml, wrong_fields
from cacr.runs import scales

T = TypeVar("T")

_NOT_LEARNED = (RESUMABLE - {"data", "epochs", "max_steps"}) | {"seed", "time"}


class _Content(BaseModel):
    """The content of the file, apart from its format."""

    model_config = ConfigDict(strict=True)

    settings: dict[str, Any]
    versions: dict[str, str] = {}


@dataclass(frozen=True)
class StoredConfig:
    """The content of a ``config.yaml``.

    Attributes:
        path: the file.
        settings: settings as they were resolved when the run started.
        versions: versions of the software.
    """

    path: Path
    settings: ResolvedSettings
    versions: dict[str, str]

    @cached_property
    def learned(self) -> dict[str, Any]:
        """Settings that influence the result, including options of the objective and the views.

        Runs in which these are equal differ only in the seed, and in where and how they were run.
        """
        values = self.settings.model_dump(mode="json")
        return {name: value for name, value in values.items() if name not in _NOT_LEARNED}

    @cached_property
    def t_pos(self) -> float:
        """t+ of the weights pi+ of the objective."""
        return self._scale(scales.t_pos)

    @cached_property
    def t_neg(self) -> float:
        """t- of the weights pi- of the objective."""
        return self._scale(scales.t_neg)

    @cached_property
    def weighing(self) -> tuple[float, float]:
        """t+ and t- with the signs by which the objective weighs."""
        return self._scale(scales.weighing)

    def _scale(self, of: Callable[[str, Mapping[str, Any]], T]) -> T:
        try:
            return of(self.settings.objective, self.settings.objective_options)
        except UserError as error:
            raise _wrong(self.path, str(error)) from None


def read_config(path: Path) -> StoredConfig:
    """Read the file.

    Raises:
        UserError: it is damaged, or another version wrote it.
    """
    values = read_yaml(path)
    check_format(values.get("format"), path)
    try:
        content = _Content.model_validate(values)
        settings = make(ResolvedSettings, content.settings)
    except ValidationError as error:
        raise _wrong(path, wrong_fields(error)) from None
    except SettingsError as error:
        raise _wrong(path, "; ".join(error.problems)) from None
    return StoredConfig(path, settings, content.versions)


def _wrong(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} is damaged: {why}; restore it from a copy, or start the run again with another --out"
    )
