"""``cacr evaluate``: run protocols on an encoder, and store the results in its folder."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cacr.config import EvaluateSettings
from cacr.data.prepare import Progress
from cacr.distributed import rank
from cacr.errors import UserError
from cacr.evaluation.contestants import Contestant, contestants, require_fit
from cacr.evaluation.data.labelled import LabelledData
from cacr.evaluation.data.locations import locations
from cacr.evaluation.data.sets import is_suite
from cacr.evaluation.registry import ASK_WORDS, PROTOCOLS, ProtocolSettings
from cacr.evaluation.settings import Evaluation
from cacr.evaluation.tasks import AnyTask, Data, by_need, make_task, open_data
from cacr.features.machine import choose_machine
from cacr.runs.result import Result, write_result


def evaluate_run(
    run: str | Path, values: Mapping[str, Any], *, progress: Progress | None = None
) -> list[Result]:
    """Like :func:`evaluate`, with the settings as plain values, including those of the protocols.

    With ``devices`` or under torchrun, several processes encode together. Each process then trains the same
    classifiers on the same features, and the first one writes. Processes that are started here show no progress.
    """
    asked = Evaluation.parse(values)
    settings = asked.settings
    if settings.devices == 1 and "TORCHELASTIC_RUN_ID" not in os.environ:
        return _evaluate(run, asked, progress)
    from cacr.training.processes.launch import Where, launch

    where = Where(settings.accelerator, settings.devices)
    return [Result(**plain) for plain in launch(_evaluate_together, where, run, settings)]


def _evaluate_together(fabric: object, run: str | Path, settings: EvaluateSettings) -> list[dict[str, Any]]:
    """Results as plain values, because Fabric cannot return frozen dataclasses."""
    return [asdict(result) for result in evaluate(run, settings)]


def evaluate(
    run: str | Path, settings: EvaluateSettings, *, progress: Progress | None = None
) -> list[Result]:
    """Measure the encoder of a run and its baselines, and store the results.

    Args:
        run: A run folder, or anything else that :func:`cacr.load_encoder` takes.
        settings: What to measure, and on which data.
        progress: Called with the finished and the total amount of each piece of work.

    Returns:
        A result for each protocol and subject, the encoder first; each is also written to
        :func:`cacr.evaluation.contestants.evaluation_folder` (see ``Result.file_name``).
    """
    return _evaluate(run, Evaluation.of(settings), progress)


def _evaluate(run: str | Path, asked: Evaluation, progress: Progress | None) -> list[Result]:
    settings = asked.settings
    if is_suite(settings.data):
        raise UserError(f"{settings.data} has many data sets: use evaluate_suite")
    chosen = asked.protocols
    quick = all(options.quick for options in chosen.values())
    defaults = {options.default_baselines for options in chosen.values()}
    words = any(options.needs in ASK_WORDS for options in chosen.values())
    subjects = contestants(
        run, settings, quick=quick, defaults=defaults.pop() if len(defaults) == 1 else (), words=words
    )
    require_fit([(each.subject, each.encoder) for each in subjects], chosen)
    parts = by_need(chosen)
    opened = {needs: open_data(settings, needs) for needs in parts}
    return [
        result
        for contestant in subjects
        for needs, data in opened.items()
        for result in measure(contestant, data, parts[needs], settings, progress=progress)
    ]


def measure(
    contestant: Contestant,
    data: Data,
    chosen: Mapping[str, ProtocolSettings],
    settings: EvaluateSettings,
    *,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Run protocols on one encoder or baseline; each result is written before the next protocol starts."""
    machine = choose_machine(
        [data.train, data.test],
        batch_size=settings.batch_size,
        workers=settings.workers,
        accelerator=settings.accelerator,
        memory_gb=settings.memory_gb,
    )
    task = make_task(contestant, data, settings, machine, progress)
    several = isinstance(data, LabelledData) and data.several is not None
    for protocol, options in chosen.items():
        if several and not options.several_classes:
            raise UserError(
                f"images of {settings.data} show several classes, which {protocol} does not support: use fewshot or "
                "transfer, or --set metric=accuracy"
            )
        result = _measure(task, contestant, protocol, options, settings)
        if rank() == 0:
            write_result(contestant.folder, result)
        yield result


def _measure(
    task: AnyTask,
    contestant: Contestant,
    protocol: str,
    options: ProtocolSettings,
    settings: EvaluateSettings,
) -> Result:
    """Run one protocol, and store with its score everything that it depends on."""
    score = PROTOCOLS[protocol](task, options)
    data, info = task.data, task.encoder.info
    of_encoder = [*contestant.notes]
    if task.encoder.loaded is not None:
        of_encoder.insert(0, task.encoder.loaded.text)
    described = {
        name: list(value) if isinstance(value, tuple) else value  # as JSON returns it
        for name, value in asdict(info).items()
        if name not in ("training", "format")
    }
    return Result(
        protocol=protocol,
        subject=contestant.subject,
        score=score.value,
        spread=score.spread,
        data=settings.data,
        test_data=settings.test_data or settings.data,
        split=data.split,
        labels_per_class=getattr(options, "labels_per_class", None),
        counts={
            "train_images": len(data.train),
            "test_images": len(data.test),
            "classes": data.classes,
            "unreadable": len(data.problems) + len(task.problems),
        },
        settings=options.model_dump(mode="json"),
        seed=settings.seed,
        details=score.details,
        encoder=described,
        training=info.training,
        notes=[*of_encoder, *data.notes, *score.notes],
        metric=score.metric,
        also=score.also,
        locations=locations(settings),
        weights=contestant.weights,
        held_out=data.held_out,
        assumptions=list(data.assumptions),
    )
