"""Style of figures: colours for colour-blind readers, and files for screen and print."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cacr.files import printable, require_writable, write_atomically

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)))
"""Dashes and markers of lines, for print without colours; dotted lines are maxima."""

QUERY, POSITIVE, NEGATIVE = "#009E73", "#0072B2", "#D55E00"
"""The paper's green, blue and red, from the same palette."""

DPI = 160
LABEL = 36
"""Longest name of a line in a legend, in characters."""


def text(value: object) -> str:
    """Text from outside, such as a folder name, safe to draw: on one line, without mathematics."""
    return printable(str(value)).replace("$", r"\$")


def lines_figure(lines: int) -> tuple[Figure, Axes]:
    """A figure for this number of lines, high enough for the legend."""
    figure = Figure(figsize=(7, max(3.6, 0.22 * (lines + 3))), layout="constrained")
    return figure, figure.add_subplot()


def label(value: object) -> str:
    """Like :func:`text`, shortened for a legend."""
    shown = printable(str(value))
    return text(shown if len(shown) <= LABEL else f"{shown[: LABEL // 2]}…{shown[-LABEL // 2 :]}")


def line_style(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of line ``number``."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.5,
    }


def plain_axes(axes: Axes, *, x: str, y: str) -> None:
    """Name the axes and remove unneeded lines."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if x == "epoch":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(axes: Axes, of: Iterable[Axes] = ()) -> None:
    """A legend outside of the axes, where it hides nothing; with ``of``, each line of all these axes is named once."""
    shared = {
        label: handle for each in of for handle, label in zip(*each.get_legend_handles_labels(), strict=True)
    }
    named = ([*shared.values()], [*shared]) if shared else ()
    axes.legend(
        *named, frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0
    )


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write NAME.png and NAME.svg; the same data gives the same bytes."""
    require_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        buffer = BytesIO()
        with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
            figure.savefig(buffer, format=suffix, dpi=DPI, metadata=metadata)
        paths.append(folder / f"{name}.{suffix}")
        write_atomically(paths[-1], buffer.getvalue())
    return paths
