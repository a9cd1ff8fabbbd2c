"""The conditional entropy of the negatives over epochs (figures 3 to 5 of the paper)."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from cacr.errors import UserError
from cacr.reporting.figures.registry import register_figure
from cacr.reporting.figures.style import label, legend, line_style, lines_figure, plain_axes
from cacr.runs.run import Run


@register_figure("entropy", "conditional entropy of the negatives over epochs, all runs in one plot")
def entropy_figure(runs: Sequence[Run]) -> Figure:
    """H(X-|X) of several runs; the dotted line is its maximum.

    Raises:
        UserError: no run has been measured.
    """
    measured = [run for run in runs if run.points("entropy")]
    if not measured:
        raise UserError("no run has measured its entropy: diagnostics were off, or no epoch is finished yet")
    figure, axes = lines_figure(len(measured))
    for number, run in enumerate(measured):
        points = run.points("entropy")
        axes.plot(*zip(*points, strict=True), label=label(run.name), **line_style(number))
    maxima = sorted({round(value, 4) for run in measured for _, value in run.points("max_entropy")})
    for value in maxima:
        axes.axhline(value, color="black", linestyle=":", linewidth=1.2, label=f"maximum, {value:.2f}")
    plain_axes(axes, x="epoch", y="H(X⁻ | X) in nats")
    legend(axes)
    return figure
