"""Create the settings of an evaluation and of its protocols from plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from cacr.config import EvaluateSettings, listed_names
from cacr.errors import SettingsError, UserError
from cacr.evaluation.registry import PROTOCOLS, ProtocolSettings, settings_of
from cacr.evaluation.results.metrics import METRICS
from cacr.made import make, make_what_fits
from cacr.registry import UnknownNameError, nearest


@dataclass(frozen=True)
class Evaluation:
    """What to measure, checked once.

    Attributes:
        settings: Settings of the evaluation.
        protocols: Settings of each protocol by its name, in the given order.
    """

    settings: EvaluateSettings
    protocols: dict[str, ProtocolSettings]

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """From plain values; names that are not settings of the evaluation are options of its protocols.

        Raises:
            SettingsError: names every wrong setting at once, and suggests names for unknown ones.
            UserError: the metric is unknown, or would have no effect.
        """
        own = {name: value for name, value in values.items() if name in EvaluateSettings.model_fields}
        others = {name: value for name, value in values.items() if name not in own}
        given = own.get("options", {})
        if isinstance(given, Mapping):
            own["options"] = {**given, **others}
        settings, problems = make_what_fits(EvaluateSettings, own)
        protocols: dict[str, ProtocolSettings] = {}
        try:
            protocols = protocol_settings(settings.protocol, settings.options)
        except SettingsError as error:
            problems += error.problems
        if problems:
            raise SettingsError(problems)
        check_metric(settings.metric, protocols)
        return cls(settings, protocols)

    @classmethod
    def of(cls, settings: EvaluateSettings) -> Self:
        """From settings whose options are still plain values; raises the same errors as :meth:`parse`."""
        protocols = protocol_settings(settings.protocol, settings.options)
        check_metric(settings.metric, protocols)
        return cls(settings, protocols)


def protocol_settings(protocols: Sequence[str], options: Mapping[str, Any]) -> dict[str, ProtocolSettings]:
    """Settings of each protocol from options by name: ``k`` for all that have it, ``knn.k`` for one protocol.

    Raises:
        SettingsError: names every unknown protocol and wrong option at once, and suggests names.
    """
    problems: list[str] = []
    kinds: dict[str, type[ProtocolSettings]] = {}
    for protocol in protocols:
        try:
            kinds[protocol] = settings_of(protocol)
        except UnknownNameError as error:
            problems.append(str(error))
    places = {
        name: [(p, field) for p, kind in kinds.items() if field in kind.named() and prefix in ("", p)]
        for name in options
        for prefix, _, field in [name.rpartition(".")]
    }
    chosen: dict[str, dict[str, Any]] = {protocol: {} for protocol in kinds}
    for name, value in options.items():
        for protocol, field in places[name]:
            chosen[protocol][field] = value
        if not places[name]:
            problems.append(f"there is no setting {name!r}; {nearest(name, _names(kinds, '.' in name))}")
    made: dict[str, ProtocolSettings] = {}
    for protocol, kind in kinds.items():
        try:
            made[protocol] = make(kind, chosen[protocol])
        except SettingsError as error:
            problems += [f"{protocol}: {problem}" for problem in error.problems]
    if problems:
        raise SettingsError(problems)
    return made


def check_metric(metric: str, chosen: Mapping[str, ProtocolSettings]) -> None:
    """Refuse a metric that does not apply to every protocol.

    Raises:
        UserError: it is unknown, or a protocol has its own metrics.
    """
    if metric == "auto":
        return
    METRICS[metric]  # raises an error for an unknown name
    own = [name for name, settings in chosen.items() if settings.own_measure]
    if own:
        raise UserError(
            f"metric={metric} has no effect on {' and '.join(own)}: they have their own metrics; leave it out, or "
            "use one command per protocol"
        )


def quick_options(protocols: str | Sequence[str]) -> dict[str, str]:
    """The option that shortens searches; empty if no protocol searches, because they are fast already."""
    known = [settings_of(name) for name in listed_names(protocols) if name in PROTOCOLS]
    searches = any("search" in kind.model_fields for kind in known)
    return {"search": "quick"} if searches else {}


def _names(kinds: Mapping[str, type[ProtocolSettings]], dotted: bool) -> list[str]:
    """All possible names of an option."""
    if dotted:
        return [f"{protocol}.{field}" for protocol, kind in kinds.items() for field in kind.named()]
    return sorted({*EvaluateSettings.model_fields, *(f for kind in kinds.values() for f in kind.named())})
