"""Curves as inline SVG."""

import io
from collections.abc import Mapping, Sequence

Points = Sequence[tuple[float, float]]


def curve_svg(title: str, lines: Mapping[str, Points], *, x: str = "epoch", from_zero: bool = False) -> str:
    """A small chart as SVG text.

    Args:
        title: what the y axis shows.
        lines: name -> (x, y) points.
        x: name of the x axis.
        from_zero: whether the y axis starts at zero, for rates and shares.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 2.8), layout="constrained")
    axes = figure.add_subplot()
    for name, points in lines.items():
        axes.plot([p[0] for p in points], [p[1] for p in points], label=name, linewidth=1.5)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.tick_params(labelsize=8)
    if from_zero:
        axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if len(lines) > 1:
        axes.legend(fontsize=8, frameon=False)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
