"""``cacr evaluate``: protocols on a run, results into its folder."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cacr.config import EvaluateSettings, Settings
from cacr.encoders import load_encoder
from cacr.evaluation.baselines import BASELINES
from cacr.evaluation.features import Progress
from cacr.evaluation.labelled import open_labelled
from cacr.evaluation.machine import choose_machine
from cacr.evaluation.registry import PROTOCOLS
from cacr.evaluation.result import Result, write_result
from cacr.evaluation.settings import evaluate_settings, protocol_settings
from cacr.evaluation.task import Task
from cacr.files import require_writable


def evaluate_run(
    run: str | Path, values: Mapping[str, Any], *, progress: Progress | None = None
) -> list[Result]:
    """As :func:`evaluate`, with the settings as plain values, those of the protocols among them."""
    return evaluate(run, evaluate_settings(values), progress=progress)


def evaluate(
    run: str | Path, settings: EvaluateSettings, *, progress: Progress | None = None
) -> list[Result]:
    """Measure the encoder of a run, and the baselines asked for, and store the results.

    Args:
        run: A run folder, or an ``encoder.safetensors``.
        settings: What to measure, and on which data.
        progress: Called with what is done and what there is to do, anew for each piece of work.

    Returns:
        A result for each protocol and subject, the encoder first; each is also written to
        ``evaluation/`` in the run folder (see ``Result.file_name``).
    """
    chosen = protocol_settings(settings.protocols, settings.options)
    make_baselines = [(name, BASELINES[name]) for name in settings.baselines]
    encoder = load_encoder(run)
    folder = (Path(run) if Path(run).is_dir() else Path(run).parent) / "evaluation"
    require_writable(folder)
    data = open_labelled(settings)
    subjects = [("encoder", encoder)]
    subjects += [(name, make(encoder.info, settings.seed)) for name, make in make_baselines]
    machine = choose_machine(
        [data.train, data.test],
        batch_size=settings.batch_size,
        workers=settings.workers,
        accelerator=settings.accelerator,
    )
    results = []
    for subject, model in subjects:
        task = Task(model, data, settings.seed, machine, progress)
        for protocol, options in chosen.items():
            result = _measure(task, subject, protocol, options, settings)
            write_result(folder, result)
            results.append(result)
    return results


def _measure(
    task: Task, subject: str, protocol: str, options: Settings, settings: EvaluateSettings
) -> Result:
    """Run one protocol, and put down with its score what it depends on."""
    score = PROTOCOLS[protocol](task, options)
    data, info = task.data, task.encoder.info
    described = {
        name: list(value) if isinstance(value, tuple) else value  # as JSON gives it back
        for name, value in asdict(info).items()
        if name not in ("training", "format")
    }
    return Result(
        protocol=protocol,
        subject=subject,
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
        notes=list(data.notes),
        metric=score.metric,
        also=score.also,
    )
