"""Accuracy against epochs, and of several runs against a setting in which they differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from matplotlib.figure import Figure

from cacr.errors import UserError
from cacr.reporting.figures.runs import Run
from cacr.reporting.figures.style import label, legend, line_style, lines_figure, plain_axes, text

ONLINE = "kNN among the held-out images, while training"
PROTOCOLS = ("linear", "linear-paper", "knn")
"""Results that are drawn against a setting: the first of these that every run has, else the online kNN."""

VARIED: dict[str, tuple[str, Callable[[Run], float]]] = {
    "k": ("K, positives of a query", lambda run: float(run.settings.views) - 1),
    "batch_size": ("batch size", lambda run: float(run.settings.batch_size)),
    "t_pos": ("t⁺", lambda run: run.t_pos),
    "t_neg": ("t⁻", lambda run: run.t_neg),
}
"""Settings that accuracy is drawn against: the axis, and a run's value."""


def accuracy_against_epoch(runs: Sequence[Run]) -> Figure:
    """The online kNN of each run.

    Raises:
        UserError: no run has labels.
    """
    labelled = [run for run in runs if run.points("knn")]
    if not labelled:
        raise UserError("no run has measured an accuracy: its images have no labels, or diagnostics were off")
    figure, axes = lines_figure(len(labelled))
    for number, run in enumerate(labelled):
        points = [(epoch, 100 * value) for epoch, value in run.points("knn")]
        axes.plot(*zip(*points, strict=True), label=label(run.name), **line_style(number))
    plain_axes(axes, x="epoch", y="accuracy in %")
    axes.set_title(ONLINE, fontsize=9)
    legend(axes)
    return figure


@dataclass(frozen=True)
class Line:
    """Runs that differ in one setting and in nothing else but the seed.

    Attributes:
        label: what they have in common.
        x: values of the setting, ascending.
        mean: accuracy at each, over seeds.
        spread: its standard deviation.
    """

    label: str
    x: list[float]
    mean: list[float]
    spread: list[float]


def accuracy_against(runs: Sequence[Run], name: str) -> Figure:
    """Accuracy against one of :data:`VARIED`, a line for runs that are otherwise alike; bars span one deviation.

    Raises:
        UserError: no two runs differ in this setting alone, or they have no result in common.
    """
    axis, _ = VARIED[name]
    measure, score = _common_measure(runs)
    lines = lines_against(runs, name, score)
    if not lines:
        raise UserError(f"no two of these runs differ in {axis} alone")
    figure, axes = lines_figure(len(lines))
    for number, line in enumerate(lines):
        percent = ([100 * value for value in values] for values in (line.mean, line.spread))
        mean, spread = percent
        axes.errorbar(line.x, mean, spread, capsize=3, label=label(line.label), **line_style(number))
    plain_axes(axes, x=axis, y="accuracy in %")
    axes.set_xticks(sorted({value for line in lines for value in line.x}))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_title(text(measure), fontsize=9)
    legend(axes)
    return figure


def lines_against(runs: Sequence[Run], name: str, score: Callable[[Run], float]) -> list[Line]:
    """Lines of at least two values; runs that differ in the seed alone are averaged."""
    groups: dict[tuple[tuple[str, object], ...], dict[float, list[float]]] = {}
    for run in runs:
        values = groups.setdefault(_others(run, name), {})
        values.setdefault(VARIED[name][1](run), []).append(score(run))
    groups = {key: values for key, values in groups.items() if len(values) > 1}
    common = set.intersection(*(set(key) for key in groups)) if len(groups) > 1 else set()
    lines = []
    for key, values in groups.items():
        differs = [f"{part}={value}" for part, value in key if (part, value) not in common]
        x = sorted(values)
        label = ", ".join(differs) if len(groups) > 1 else dict(key)["objective"]
        lines.append(Line(str(label), x, [fmean(values[v]) for v in x], [pstdev(values[v]) for v in x]))
    return lines


def _others(run: Run, name: str) -> tuple[tuple[str, object], ...]:
    """What must be alike in runs of one line; the learning rate follows from the batch size and is left out."""
    settings = run.settings
    facts: dict[str, object] = {
        part: getattr(settings, part)
        for part in ("data", "imbalance", "framework", "objective", "encoder", "width", "epochs", "max_steps")
    }
    facts |= {part: value(run) for part, (_, value) in VARIED.items() if part != name}
    rest = {n: v for n, v in settings.objective_options.items() if n not in ("t_pos", "t_neg")}
    return (*facts.items(), ("options", str(sorted(rest.items()))))


def _common_measure(runs: Sequence[Run]) -> tuple[str, Callable[[Run], float]]:
    """What every run was measured with: its name, and a run's accuracy."""
    scores = {run.name: _scores(run) for run in runs}
    common = set.intersection(*(set(found) for found in scores.values()))
    for protocol in PROTOCOLS:
        for measured in sorted(pair for pair in common if pair[0] == protocol):
            return f"{protocol} on {measured[1]}", lambda run, measured=measured: scores[run.name][measured]
    if all(run.points("knn") for run in runs):
        return f"{ONLINE}, last epoch", lambda run: run.points("knn")[-1][1]
    raise UserError(
        "these runs have no accuracy in common: run `cacr evaluate` with the same protocol on each"
    )


def _scores(run: Run) -> dict[tuple[str, str], float]:
    """(protocol, data) -> accuracy of the encoder with all labels."""
    return {
        (result.protocol, result.data): result.score
        for result in run.results
        if result.subject == "encoder" and result.labels_per_class is None and result.metric == "accuracy"
    }
