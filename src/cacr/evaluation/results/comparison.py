"""``cacr compare``: compare runs; runs that differ only in the seed form a group."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from cacr.config import FORMAT
from cacr.errors import UserError
from cacr.evaluation.guest import Guest, open_run_or_guest
from cacr.evaluation.results.measurements import measurements
from cacr.evaluation.results.significance import LEVEL, Difference, compare_scores, holm
from cacr.files import write_atomically
from cacr.runs.budget import Budget
from cacr.runs.result import versions
from cacr.runs.run import Run

_SHOWN = 3  # number of measurements named in a note
_EQUAL_VIEWS = 0.01  # an incomplete last batch is not another budget
_FIRST_NAMES = (
    "objective",
    "objective_options",
    "framework",
    "encoder",
    "width",
    "views",
    "data",
    "imbalance",
)


@dataclass(frozen=True)
class Group:
    """Runs that differ only in the seed.

    Attributes:
        name: The settings that distinguish it from the other groups.
        differs: Every setting in which it differs from another group.
        runs: Seed -> folder.
        budgets: Seed -> number of views that the run was trained on; empty for an encoder that was not trained here.
    """

    name: str
    differs: dict[str, Any]
    runs: dict[int, Path]
    budgets: dict[int, Budget]


@dataclass(frozen=True)
class Line:
    """One measurement of one group, compared with the first group that has it.

    Attributes:
        measure: What was measured, and how.
        group: Name of the group.
        scores: Seed -> score.
        difference: Difference from the first group; None for the first group, or with too few seeds.
        p: Corrected p-value (Holm, over all differences of the comparison).
        verdict: ``better``, ``worse``, ``no difference shown``, ``too few seeds``; empty for the first group.
    """

    measure: str
    group: str
    scores: dict[int, float]
    difference: Difference | None = None
    p: float | None = None
    verdict: str = ""

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return fmean(self.scores.values())

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the seeds (n - 1); None for one seed."""
        return stdev(self.scores.values()) if len(self.scores) > 1 else None


@dataclass(frozen=True)
class Comparison:
    """Groups, measurements, and notes for the user."""

    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


def compare_runs(paths: Sequence[Path]) -> Comparison:
    """Compare the results of runs.

    Runs with the same settings, except machine and seed, form one group; scores are averaged over its seeds. Every
    group is compared with the first one, that of the first run, on measurements made in the same way.

    Raises:
        UserError: names every folder without a finished evaluation, and runs that are given twice.
    """
    runs = _open_runs(paths)
    groups = _group([run for run in runs if not isinstance(run, Guest)])
    groups += [Group(run.name, {}, {0: run.path}, {}) for run in runs if isinstance(run, Guest)]
    groups.sort(key=lambda group: runs[0].path not in group.runs.values())  # the reference comes first
    if not any(run.results for run in runs):
        raise UserError("none of these runs has been evaluated: run `cacr evaluate RUN --data DATA` on each")
    by_path = {run.path: run for run in runs}
    lines: list[Line] = []
    lacking: dict[tuple[str, ...], list[str]] = {}
    for measured in measurements(
        {group.name: {seed: by_path[path].results for seed, path in group.runs.items()} for group in groups}
    ):
        scores, title = measured.scores, measured.title
        present = [group for group in groups if scores[group.name]]
        reference = scores[present[0].name]
        lines.append(Line(title, present[0].name, reference))
        for group in present[1:]:
            found = compare_scores(reference, scores[group.name], resolution=measured.resolution)
            lines.append(Line(title, group.name, scores[group.name], found))
        every = [(group, seed, path) for group in groups for seed, path in group.runs.items()]
        missing = tuple(str(path) for group, seed, path in every if seed not in scores[group.name])
        lacking.setdefault(missing, []).append(title)
    notes = _notes(groups, by_path)
    for missing, titles in lacking.items():
        if missing:
            more = f" and {len(titles) - _SHOWN} more" if len(titles) > _SHOWN else ""
            notes.append(f"{'; '.join(titles[:_SHOWN])}{more}: not measured on {', '.join(missing)}")
    return Comparison(tuple(groups), tuple(_judged(lines)), tuple(notes))


def _open_runs(paths: Sequence[Path]) -> list[Run]:
    """Open the runs and read everything that is needed, so that all problems are reported at once."""
    problems, runs = [], []
    for path in paths:
        try:
            run = open_run_or_guest(path)
            _ = (
                run.results
                if isinstance(run, Guest)
                else (run.settings, run.budget, run.training, run.results)
            )
            runs.append(run)
        except UserError as error:
            problems.append(str(error))
    if len({path.resolve() for path in paths}) < len(paths):
        problems.append("a run is given twice; its seed would count twice")
    if problems:
        raise UserError("these runs cannot be compared:\n" + "\n".join(f"  - {text}" for text in problems))
    return runs


def _group(runs: Sequence[Run]) -> list[Group]:
    if not runs:
        return []
    by_settings: dict[str, list[Run]] = {}
    for run in runs:
        key = json.dumps(run.learned, sort_keys=True)
        by_settings.setdefault(key, []).append(run)
    groups: list[Group] = []
    for members, name, differs in zip(
        by_settings.values(), *_names([m[0].learned for m in by_settings.values()]), strict=True
    ):
        same: dict[int, Path] = {}
        for run in members:
            seed = run.settings.seed
            if seed in same:
                raise UserError(
                    f"{same[seed]} and {run.path} have the same settings and seed {seed}: leave out "
                    "one of them"
                )
            same[seed] = run.path
        budgets = {run.settings.seed: run.budget for run in members}
        groups.append(Group(name, differs, same, budgets))
    return groups


def _names(learned: Sequence[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """The shortest distinguishing name of each group, and all settings in which it differs."""
    order = [*_FIRST_NAMES, *(name for name in learned[0] if name not in _FIRST_NAMES)]
    differing = [name for name in order if any(each[name] != learned[0][name] for each in learned)]
    if not differing:
        return [learned[0]["objective"]], [{}]
    for count in range(1, len(differing) + 1):
        names = [", ".join(_text(name, each[name]) for name in differing[:count]) for each in learned]
        if len(set(names)) == len(names):
            break
    return names, [{name: each[name] for name in differing} for each in learned]


def _text(name: str, value: Any) -> str:
    if name in ("objective", "framework", "encoder"):
        return str(value)
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items()) or f"no {name}"
    return f"{name}={value}"


def _judged(lines: Sequence[Line]) -> list[Line]:
    """The lines with corrected p-values and verdicts; the first group of a measurement has none."""
    tested = [line for line in lines if line.difference is not None]
    corrected = iter(holm([line.difference.p for line in tested if line.difference is not None]))
    judged, measure = [], None
    for line in lines:
        if line.measure != measure:
            measure = line.measure
            judged.append(line)
        elif line.difference is None:
            judged.append(replace(line, verdict="too few seeds"))
        else:
            p = next(corrected)
            verdict = "no difference shown"
            if p <= LEVEL:
                verdict = "better" if line.difference.mean > 0 else "worse"
            judged.append(replace(line, p=p, verdict=verdict))
    return judged


def _notes(groups: Sequence[Group], runs: Mapping[Path, Run]) -> list[str]:
    notes = []
    seen = {group.name: {budget.views_seen for budget in group.budgets.values()} for group in groups}
    all_seen = set().union(*seen.values())
    if all_seen and max(all_seen) > (1 + _EQUAL_VIEWS) * min(all_seen):
        shown = "; ".join(f"{name}: {_range(values)}" for name, values in seen.items() if values)
        notes.append(
            f"the runs were not trained on the same number of views ({shown}): this may explain differences"
        )
    for run in runs.values():
        if isinstance(run, Guest):
            notes.append(f"{run.name} was not trained here: its training budget is not known")
            continue
        if run.training.finished is False:
            notes.append(f"{run.path} is not finished")
        steps = {str(result.training.get("steps")) for result in run.results if result.subject == "encoder"}
        if old := steps - {str(run.training.steps)}:
            notes.append(
                f"{run.path}: measured at step {', '.join(sorted(old))}, but its encoder is now "
                f"that of step {run.training.steps}; evaluate it again"
            )
    if len(groups) > 1 and min(len(group.runs) for group in groups) < 3:
        notes.append("groups with fewer than three seeds are not reliable: use three to five")
    return notes


def _range(values: set[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def write_comparison(path: Path, comparison: Comparison) -> None:
    """Write a comparison as JSON."""
    content = {"format": FORMAT, "versions": versions(), **asdict(comparison)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(content, indent=2, default=str) + "\n").encode())
