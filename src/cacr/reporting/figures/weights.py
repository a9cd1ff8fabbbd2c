"""How hard a query is pulled and pushed: its positives and negatives as images, their weights as bars."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from torch import Tensor

from cacr.errors import UserError
from cacr.reporting.figures.registry import register_figure
from cacr.reporting.figures.style import NEGATIVE, POSITIVE, QUERY, text
from cacr.reporting.weighing import weigh
from cacr.runs.run import Run

SHOWN = 6
"""Negatives of the highest and of the lowest weights that are drawn."""

_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.2}


@register_figure(
    "weights",
    "a query with its positives and negatives as images, their weights as bars; one for each run",
    each_run=True,
)
def weights_figure(run: Run, query: int = 0) -> Figure:
    """Positives with pi+, and the negatives with the highest and the lowest pi-, after the last epoch.

    Args:
        run: one with pictures of its held-out images.
        query: one of the first images of the batch that is kept.

    Raises:
        UserError: nothing is kept, or the query is not among it.
    """
    snapshots, pictures = run.snapshots, run.pictures
    if pictures is None:
        raise UserError(
            f"{run.path} has no pictures of its held-out images: diagnostics were off, or it was trained by an "
            "earlier version"
        )
    if not snapshots:
        raise UserError(f"{run.path} has kept no embeddings yet")
    last = snapshots[-1]
    if (pictures.queries.shape[0], pictures.first.shape[0]) != last.z.shape[:2]:
        raise UserError(
            f"the pictures and the embeddings in {run.folder.diagnostics} are not of the same batch: remove them"
        )
    if not 0 <= query < pictures.queries.shape[1]:
        raise UserError(f"query {query} is not one of the {pictures.queries.shape[1]} that are kept")
    found = weigh(last.z, t_pos=run.t_pos, t_neg=run.t_neg).of(query)
    highest, lowest = found.extremes(min(SHOWN, (last.z.shape[1] - 1) // 2))
    figure = Figure(figsize=(8, 5.6), layout="constrained")
    figure.suptitle(text(f"{run.name}, epoch {last.epoch:g}"), fontsize=10)
    top, middle, bottom = np.asarray(figure.subfigures(3, 1)).tolist()
    views = pictures.queries[:, query]
    _row(
        top,
        "positives",
        views[1:],
        found.positives,
        "π⁺",
        run.t_pos,
        POSITIVE,
        1 / len(found.positives),
        views[0],
    )
    even = 1 / (len(found.negatives) - 1)
    for part, title, chosen in (
        (middle, "negatives with the highest weights", highest),
        (bottom, "negatives with the lowest weights", lowest),
    ):
        _row(
            part,
            title,
            pictures.first[chosen],
            found.negatives[chosen],
            "π⁻",
            run.t_neg,
            NEGATIVE,
            even,
            None,
        )
    return figure


def _row(
    part: SubFigure,
    title: str,
    images: Tensor,
    weights: Tensor,
    sign: str,
    t: float,
    colour: str,
    even: float,
    query: Tensor | None,
) -> None:
    """Images in a row, each above the bar of its weight; ``even`` is the weight if all were alike."""
    columns = max(SHOWN, len(images)) + 1
    part.suptitle(f"{title} (t{sign[-1]} = {t:g})", fontsize=9, x=0.01, ha="left")
    axes = part.subplots(2, columns, gridspec_kw={"height_ratios": (1, 0.6)})
    for place in axes.flat:
        place.set_axis_off()
    if query is not None:
        _picture(axes[0, 0], query, QUERY)
        axes[0, 0].set_title("query", fontsize=8)
    top = max(float(weights.max()), even) * 1.35
    for place, (image, weight) in enumerate(zip(images, weights.tolist(), strict=True), 1):
        _picture(axes[0, place], image, colour)
        bar = axes[1, place]
        bar.bar([0], [weight], color=colour, width=0.6)
        bar.axhline(even, color="black", linestyle=":", linewidth=1)
        bar.set(xlim=(-0.6, 0.6), ylim=(0, top))
        bar.annotate(
            f"{weight:.2g}",
            (0, weight),
            (0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            bbox=_PAPER,
        )
    axes[1, 0].annotate(
        f"{sign}\ndotted: even,\n{even:.2g}",
        (0.5, 0.5),
        xycoords="axes fraction",
        ha="center",
        va="center",
        fontsize=8,
    )


def _picture(axes: Axes, image: Tensor, colour: str) -> None:
    axes.set_axis_on()
    axes.imshow(image.permute(1, 2, 0).numpy(), interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color=colour, linewidth=2)
