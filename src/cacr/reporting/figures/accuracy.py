"""Accuracy over epochs, and accuracy of several runs against a setting in which they differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev

from matplotlib.figure import Figure

from cacr.errors import UserError
from cacr.evaluation import PROTOCOLS
from cacr.reporting.figures.registry import register_figure
from cacr.reporting.figures.style import label, legend, line_style, lines_figure, plain_axes, text
from cacr.reporting.figures.varied import VARIED, Varied, comparable
from cacr.runs.run import Run

ONLINE = "kNN on the held-out images, during training"
PROBED = "linear classifiers on the test images, during training"


def drawn_protocols() -> list[str]:
    """Protocols to plot against a setting, the first one that every run has: ``linear``, other linear probes, kNN."""
    return [*(name for name in PROTOCOLS if name == "linear" or name.startswith("linear-")), "knn"]


@register_figure("accuracy-epoch", "accuracy over epochs, all runs in one plot")
def accuracy_against_epoch(runs: Sequence[Run]) -> Figure:
    """The linear classifiers of ``probe_every_epochs`` or ``probe_every_steps`` if all runs have them, else online kNN.

    Raises:
        UserError: no run has labels.
    """
    measured = [run for run in runs if run.points("probe") or run.points("knn")]
    metric, title = ("probe", PROBED) if all(run.points("probe") for run in measured) else ("knn", ONLINE)
    labelled = [run for run in measured if run.points(metric)]
    if not labelled:
        raise UserError("no run has measured an accuracy: its images have no labels, or diagnostics were off")
    figure, axes = lines_figure(len(labelled))
    for number, run in enumerate(labelled):
        points = [(epoch, 100 * value) for epoch, value in run.points(metric)]
        axes.plot(*zip(*points, strict=True), label=label(run.name), **line_style(number))
    plain_axes(axes, x="epoch", y="accuracy in %")
    axes.set_title(title, fontsize=9)
    legend(axes)
    return figure


@dataclass(frozen=True)
class AccuracyLine:
    """Runs that differ only in one setting and the seed.

    Attributes:
        label: what they have in common.
        x: values of the setting, ascending.
        mean: mean accuracy over seeds, for each value.
        spread: its standard deviation.
    """

    label: str
    x: list[float]
    mean: list[float]
    spread: list[float]


def accuracy_against(runs: Sequence[Run], name: str) -> Figure:
    """Accuracy against one of :data:`VARIED`, one line per group of otherwise equal runs; bars: one standard deviation.

    Raises:
        UserError: no two runs differ only in this setting, or they have no result in common.
    """
    axis = VARIED[name].axis
    measure, score = _common_measure(runs)
    lines = lines_against(runs, name, score)
    if not lines:
        raise UserError(f"no two of these runs differ only in {axis}")
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


def _spread(scores: Sequence[float]) -> float:
    """Standard deviation over seeds (n - 1), as in `cacr compare`; 0 for one seed."""
    return stdev(scores) if len(scores) > 1 else 0.0


def lines_against(runs: Sequence[Run], name: str, score: Callable[[Run], float]) -> list[AccuracyLine]:
    """Lines with at least two values; runs that differ only in the seed are averaged."""
    groups = {key: _by_value(own, VARIED[name], score) for key, own in comparable(runs, VARIED[name]).items()}
    common = set.intersection(*(set(key) for key in groups)) if len(groups) > 1 else set()
    lines = []
    for key, values in groups.items():
        differs = [f"{part}={value}" for part, value in key if (part, value) not in common]
        x = sorted(values)
        label = ", ".join(differs) if len(groups) > 1 else dict(key)["objective"]
        lines.append(
            AccuracyLine(str(label), x, [fmean(values[v]) for v in x], [_spread(values[v]) for v in x])
        )
    return lines


def _by_value(runs: Sequence[Run], varied: Varied, score: Callable[[Run], float]) -> dict[float, list[float]]:
    """Value of the setting -> scores of its runs."""
    values: dict[float, list[float]] = {}
    for run in runs:
        values.setdefault(varied.value(run), []).append(score(run))
    return values


def _common_measure(runs: Sequence[Run]) -> tuple[str, Callable[[Run], float]]:
    """A measurement that every run has: its name, and a function that gives a run's accuracy."""
    scores = {run.name: _scores(run) for run in runs}
    common = set.intersection(*(set(found) for found in scores.values()))
    for protocol in drawn_protocols():
        for measured in sorted(pair for pair in common if pair[0] == protocol):
            on = f"{measured[1]}, held out" if measured[2] else measured[1]
            return f"{protocol} on {on}", lambda run, measured=measured: scores[run.name][measured]
    if all(run.points("knn") for run in runs):
        return f"{ONLINE}, last epoch", lambda run: run.points("knn")[-1][1]
    raise UserError("these runs have no common accuracy: run `cacr evaluate` with the same protocol on each")


def _scores(run: Run) -> dict[tuple[str, str, bool], float]:
    """Protocol, data, whether test images are a part of the data -> accuracy of the current encoder with all labels."""
    return {
        (result.protocol, result.data, result.held_out): result.score
        for result in run.current_results
        if result.subject == "encoder" and result.labels_per_class is None and result.metric == "accuracy"
    }


for _name, _varied in VARIED.items():
    register_figure(f"accuracy-{_name}", f"accuracy of several runs against {_varied.axis}")(
        partial(accuracy_against, name=_name)
    )
