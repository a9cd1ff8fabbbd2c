"""Locations of the data of an evaluation."""

from cacr.config import EvaluateSettings
from cacr.data import SOURCES, absolute_list
from cacr.reading.files import user_path


def locations(settings: EvaluateSettings) -> list[str]:
    """Locations of data, test data and lists, so that equal names in different places are distinguished."""
    places = [_location(spec, settings) for spec in (settings.data, settings.test_data or settings.data)]
    if settings.images is not None:
        places.append(f"images {absolute_list(settings.images)}")
    if settings.labels is not None:
        places.append(f"labels {user_path(str(settings.labels)).absolute()}")
    return places


def _location(spec: str, settings: EvaluateSettings) -> str:
    named = spec.partition(":")[0] in SOURCES
    return str(user_path(str(settings.data_root) if named else spec).absolute())
