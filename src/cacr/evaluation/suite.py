"""Evaluate on many data sets (``--data suite:PATH``), or with a second encoder (``--against``)."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cacr.config import EvaluateSettings
from cacr.data.prepare import Progress
from cacr.errors import StoppedError, UserError, refusal
from cacr.evaluation.contestants import Contestant, contestants, encoder_name, evaluation_folder, require_fit
from cacr.evaluation.data.labelled import metric_of
from cacr.evaluation.data.locations import locations
from cacr.evaluation.data.sets import SUITE, is_suite
from cacr.evaluation.evaluate import measure
from cacr.evaluation.registry import Needs, ProtocolSettings
from cacr.evaluation.results.suite_report import Failure, SuiteReport
from cacr.evaluation.settings import Evaluation
from cacr.evaluation.tasks import Data, by_need, open_data
from cacr.files import printable, write_atomically
from cacr.reading.files import kind_of, user_path
from cacr.runs.result import Result, read_results, versions

Tell = Callable[[str], None]
"""Called with a line of text when a data set is done."""


def suite_sets(data: str) -> list[str]:
    """The data sets of ``suite:PATH``, which are the sub-folders of PATH; or the single data set ``data``.

    Raises:
        UserError: the folder does not exist, or has no sub-folders.
    """
    if not is_suite(data):
        return [data]
    folder = user_path(data.removeprefix(SUITE))
    if kind_of(folder) != "folder":
        raise UserError(f"there is no folder {folder}: {data} needs a folder of data sets")
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise UserError(f"{folder} has no data sets: each one is a folder with train/ and test/")
    return [str(path) for path in found]


def evaluate_suite(
    run: str | Path,
    values: Mapping[str, Any],
    *,
    against: str | Path | None = None,
    progress: Progress | None = None,
    tell: Tell = lambda line: None,
) -> SuiteReport:
    """Measure an encoder, its baselines and optionally a second encoder on many data sets.

    Finished measurements with the same weights, data, settings and software are not repeated. If a data set fails, it
    is reported, and the next one starts.

    Args:
        run: A run folder, or anything else that :func:`cacr.load_encoder` takes.
        values: Settings as in :func:`evaluate_run`; ``data`` may be ``suite:PATH``.
        against: A second run, measured in the same way; its results go into its own folder.
        progress: Called with the finished and the total amount of each piece of work.
        tell: Called with a line of text after each data set.
    """
    asked = Evaluation.parse(values)
    settings, chosen = asked.settings, asked.protocols
    if settings.devices > 1 or "TORCHELASTIC_RUN_ID" in os.environ:
        raise UserError(
            "suite:PATH and --against work in one process only, because a process that fails on a data set would "
            "block the others: leave out devices and torchrun"
        )
    sets = suite_sets(settings.data)
    entrants = _enter(run, against, settings)
    require_fit([(each.subject, each.encoder) for _, each in entrants], chosen)
    report = SuiteReport(
        settings.data,
        [Path(data).name for data in sets],
        list(chosen),
        [name for name, _ in entrants],
        rival=None if against is None else encoder_name(against),
    )
    for name, data in zip(report.sets, sets, strict=True):
        one = settings.model_copy(update={"data": data})
        try:
            need_test = is_suite(settings.data) and settings.test_data is None
            for contestant, result in _measure_set(entrants, one, chosen, need_test, progress):
                report.results[name, result.protocol, contestant] = result
        except StoppedError:
            raise
        except Exception as error:  # if one data set fails, the others are still measured
            if not is_suite(settings.data):
                raise
            fault = f"a fault of cacr, please report it: {type(error).__name__}: {error}"
            reason = str(error) if isinstance(error, UserError) else refusal(error) or fault
            report.failures.append(Failure(name, reason))
            tell(f"{printable(name)}: FAILED: {reason}")
        else:
            tell(_line(report, name))
        _write(evaluation_folder(run), report, settings, chosen)
    return report


def _enter(
    run: str | Path, against: str | Path | None, settings: EvaluateSettings
) -> list[tuple[str, Contestant]]:
    """Encoders and baselines by name; reports all that cannot be loaded at once."""
    entrants: list[tuple[str, Contestant]] = []
    problems = []
    try:
        entrants += [(each.subject, each) for each in contestants(run, settings)]
    except UserError as error:
        problems.append(str(error))
    if against is not None:
        try:
            (rival,) = contestants(against, settings.model_copy(update={"baselines": ()}))
            entrants.append((f"against {encoder_name(against)}", rival))
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    return entrants


def _measure_set(
    entrants: Sequence[tuple[str, Contestant]],
    settings: EvaluateSettings,
    chosen: Mapping[str, ProtocolSettings],
    need_test: bool,
    progress: Progress | None,
) -> Iterator[tuple[str, Result]]:
    """Encoders and their results; stored results are read, others are measured."""
    opened: dict[Needs, Data] = {}

    def data_for(needs: Needs) -> Data:
        if needs not in opened:
            opened[needs] = open_data(settings, needs, need_test=need_test)
        return opened[needs]

    for name, contestant in entrants:
        stored = read_results(contestant.folder)
        missing = dict(chosen)
        for protocol, options in chosen.items():
            key = _expected(contestant, protocol, options, settings)
            metric = None if options.own_measure else metric_of(settings)
            known = [r for r in stored if _key(r) == key and metric in (None, r.metric)]
            if any(r.held_out != settings.held_out for r in known):  # only the data tells what is tested on
                known = [r for r in known if r.held_out == data_for(options.needs).held_out]
            if known:
                yield name, known[0]
                del missing[protocol]
        for needs, part in by_need(missing).items():
            for result in measure(contestant, data_for(needs), part, settings, progress=progress):
                yield name, result


def _about(**facts: Any) -> str:
    """A complete key of a result: equal only for the same measurement of the same weights."""
    return json.dumps(facts, sort_keys=True)


def _key(result: Result) -> str:
    """The key of a stored result."""
    return _about(
        protocol=result.protocol,
        subject=result.subject,
        data=[result.data, result.test_data, *result.locations],
        settings=result.settings,
        seed=result.seed,
        weights=result.weights,
        version=result.versions.get("cacr"),
    )


def _expected(
    contestant: Contestant, protocol: str, options: ProtocolSettings, settings: EvaluateSettings
) -> str:
    """The key of a result that has not been measured yet."""
    return _about(
        protocol=protocol,
        subject=contestant.subject,
        data=[settings.data, settings.test_data or settings.data, *locations(settings)],
        settings=options.model_dump(mode="json"),
        seed=settings.seed,
        weights=contestant.weights,
        version=versions()["cacr"],
    )


def _line(report: SuiteReport, name: str) -> str:
    texts = []
    for protocol in report.protocols:
        found = [f"{c} {report.results[name, protocol, c].text}" for c in report.contestants]
        texts.append(f"{protocol}: {', '.join(found)}")
    return f"{printable(name)}: {'; '.join(texts)}"


def _write(
    folder: Path, report: SuiteReport, settings: EvaluateSettings, chosen: Mapping[str, ProtocolSettings]
) -> None:
    """The summary so far."""
    what = [settings.data, locations(settings), report.contestants, settings.seed]
    what += [options.model_dump(mode="json") for options in chosen.values()]
    digits = blake2b(json.dumps([*what, report.protocols]).encode(), digest_size=4).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    content = json.dumps(report.summary(), indent=2) + "\n"
    write_atomically(folder / f"suite-{digits}.json", content.encode())
