"""How hard a query is pulled and pushed: its positives and negatives as images, their weights as bars."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from torch import Tensor

from cacr.diagnostics.snapshots import read_pictures, read_snapshots
from cacr.errors import UserError
from cacr.losses.measures import negative_weights, positive_weights
from cacr.reporting.figures.runs import Run
from cacr.reporting.figures.style import NEGATIVE, POSITIVE, QUERY, text

SHOWN = 6
"""Negatives of the highest and of the lowest weights that are drawn."""

_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.2}


@dataclass(frozen=True)
class Weighted:
    """A query with what pulls and pushes it.

    Attributes:
        query: number of its image in the batch.
        positives: (K,) pi+ of its other views.
        highest: numbers of the images with the highest pi-, the highest first.
        lowest: numbers of those with the lowest, the lowest last.
        negatives: (images,) pi- of all images, 0 for its own.
    """

    query: int
    positives: Tensor
    highest: list[int]
    lowest: list[int]
    negatives: Tensor


def weigh(z: Tensor, query: int, *, t_pos: float, t_neg: float) -> Weighted:
    """The weights of one query: the first view of an image, among the first views of the others.

    Args:
        z: (views, images, dim) of one batch.
        query: number of its image.
        t_pos: t+ of pi+.
        t_neg: t- of pi-.
    """
    pi_pos, pi_neg = positive_weights(z, t_pos)[0, query], negative_weights(z, t_neg)[0, query]
    order = [index for index in pi_neg.argsort(descending=True).tolist() if index != query]
    shown = min(SHOWN, len(order) // 2)
    return Weighted(query, pi_pos, order[:shown], order[len(order) - shown :], pi_neg)


def weights_figure(run: Run, query: int = 0) -> Figure:
    """Positives with pi+, and the negatives with the highest and the lowest pi-, after the last epoch.

    Args:
        run: one with pictures of its held-out images.
        query: one of the first images of the batch that is kept.

    Raises:
        UserError: nothing is kept, or the query is not among it.
    """
    snapshots, pictures = read_snapshots(run.folder), read_pictures(run.folder)
    if not snapshots:
        raise UserError(f"{run.folder.path} has kept no embeddings yet")
    if not 0 <= query < pictures.queries.shape[1]:
        raise UserError(f"query {query} is not one of the {pictures.queries.shape[1]} that are kept")
    last = snapshots[-1]
    found = weigh(last.z, query, t_pos=run.t_pos, t_neg=run.t_neg)
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
        (middle, "negatives with the highest weights", found.highest),
        (bottom, "negatives with the lowest weights", found.lowest),
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
