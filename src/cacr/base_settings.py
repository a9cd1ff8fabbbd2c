"""What all settings have in common."""

from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo


class Settings(BaseModel):
    """Base class of all settings: immutable; unknown names are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True, serialize_by_alias=True
    )

    @classmethod
    def named(cls) -> dict[str, FieldInfo]:
        """Fields by the names that users type: the alias if Python does not allow the name (such as ``from``)."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @model_validator(mode="before")
    @classmethod
    def _none(cls, values: Any) -> Any:
        """``none``, as users type it, is None in settings that may be None."""
        if not isinstance(values, dict):
            return values
        optional = {name for name, field in cls.named().items() if NoneType in get_args(field.annotation)}
        return {
            name: None if isinstance(value, str) and value == "none" and name in optional else value
            for name, value in values.items()
        }
