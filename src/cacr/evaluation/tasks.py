"""Open the data that protocols need, and make the task of a protocol."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cacr.config import EvaluateSettings
from cacr.data.prepare import Progress
from cacr.evaluation.contestants import Contestant
from cacr.evaluation.data.annotated import AnnotatedData, open_annotated
from cacr.evaluation.data.judged import open_judged
from cacr.evaluation.data.labelled import LabelledData, open_known
from cacr.evaluation.data.locations import locations
from cacr.evaluation.data.task import Task
from cacr.evaluation.detection.task import DetectionTask
from cacr.evaluation.registry import ASK_WORDS, Needs, ProtocolSettings
from cacr.features.machine import Machine

Data = LabelledData | AnnotatedData
"""Images to train and test on."""

AnyTask = Task | DetectionTask
"""Input of protocols."""


def open_data(settings: EvaluateSettings, needs: Needs, *, need_test: bool = False) -> Data:
    """Open the data for protocols with certain needs; see :func:`open_labelled`."""
    if needs in ("boxes", "masks"):
        return open_annotated(settings, masks=needs == "masks")
    if needs in ASK_WORDS:
        return open_judged(settings, captions=needs == "captions")
    return open_known(settings, labels=needs == "labels", need_test=need_test)


def by_need(chosen: Mapping[str, ProtocolSettings]) -> dict[Needs, dict[str, ProtocolSettings]]:
    """Protocols by what they need; those that can work without labels are grouped with those that cannot."""
    all_needs = {options.needs for options in chosen.values()}
    parts: dict[Needs, dict[str, ProtocolSettings]] = {}
    for protocol, options in chosen.items():
        needs: Needs = "labels" if options.needs == "images" and "labels" in all_needs else options.needs
        parts.setdefault(needs, {})[protocol] = options
    return parts


def make_task(
    contestant: Contestant,
    data: Data,
    settings: EvaluateSettings,
    machine: Machine,
    progress: Progress | None,
) -> AnyTask:
    """The input of protocols with such data."""
    if isinstance(data, LabelledData):
        return Task(contestant.encoder, data, settings.seed, machine, progress, settings.max_unreadable)
    about: dict[str, Any] = {
        "subject": contestant.subject,
        "weights": contestant.weights,
        "places": locations(settings),
    }
    about |= {
        "data": settings.data,
        "test_data": settings.test_data,
        "image": asdict(contestant.encoder.info),
    }
    return DetectionTask(contestant.encoder, data, settings.seed, machine, contestant.folder, about, progress)
