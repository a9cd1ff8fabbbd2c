"""Weights of a query: all weights, and the positives and negatives with the largest and smallest weights as images."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from torch import Tensor

from cacr.errors import UserError
from cacr.reporting.figures.registry import register_figure
from cacr.reporting.figures.style import NEGATIVE, POSITIVE, QUERY, plain_axes, text
from cacr.reporting.weighing import Weighted, weigh
from cacr.runs.run import Run
from cacr.runs.snapshots import Pictures, Snapshot

SHOWN = 4
"""Number of positives, and of negatives with the highest and with the lowest weights, as in the paper."""


@register_figure(
    "weights",
    "all weights of a query, with images of the highest and lowest; one figure per run",
    each_run=True,
)
def weights_figure(run: Run, query: int = 0) -> Figure:
    """Weights after the last epoch: all pi+ and pi-, then the views with extreme weights, above their original images.

    Args:
        run: a run with pictures of its held-out images.
        query: one of the first images of the stored batch.

    Raises:
        UserError: nothing is stored, or the query is not among the stored images.
    """
    last, pictures = _kept(run, query)
    found = weigh(last.z, *run.weighing).of(query)
    highest, lowest = found.extremes(min(SHOWN, (last.z.shape[1] - 1) // 2))
    figure = Figure(figsize=(8, 8.6), layout="constrained")
    figure.suptitle(text(f"{run.name}, epoch {last.epoch:g}"), fontsize=10)
    top, *rows = np.asarray(figure.subfigures(4, 1, height_ratios=(1, 1.3, 1.3, 1.3))).tolist()
    _distributions(top, found, run)
    views, originals = pictures.queries[:, query], pictures.originals
    order = found.strongest(len(found.positives))
    ends = order if len(order) <= 2 * SHOWN else order[:SHOWN] + order[-SHOWN:]
    positive = [(views[view + 1], None, float(found.positives[view])) for view in ends]
    own = None if originals is None else originals[query]
    _row(rows[0], "positives, the highest weight first", positive, POSITIVE, (views[0], own))
    for part, title, chosen in (
        (rows[1], "negatives with the highest weights", highest),
        (rows[2], "negatives with the lowest weights", lowest),
    ):
        shown = [
            (
                pictures.first[image],
                None if originals is None else originals[image],
                float(found.negatives[image]),
            )
            for image in chosen
        ]
        _row(part, title, shown, NEGATIVE, None)
    return figure


def _kept(run: Run, query: int) -> tuple[Snapshot, Pictures]:
    """The last embeddings of a run's batch, and its pictures.

    Raises:
        UserError: see :func:`weights_figure`.
    """
    snapshots, pictures = run.snapshots, run.pictures
    if pictures is None:
        raise UserError(
            f"{run.path} has no pictures of its held-out images: diagnostics were off, or it was trained by an "
            "earlier version"
        )
    if not snapshots:
        raise UserError(f"{run.path} has no stored embeddings yet")
    last = snapshots[-1]
    if (pictures.queries.shape[0], pictures.first.shape[0]) != last.z.shape[:2]:
        raise UserError(
            f"the pictures and the embeddings in {run.folder.diagnostics} belong to different batches: remove them"
        )
    if not 0 <= query < pictures.queries.shape[1]:
        raise UserError(f"query {query} is not one of the {pictures.queries.shape[1]} stored queries")
    return last, pictures


def _distributions(part: SubFigure, found: Weighted, run: Run) -> None:
    """All of pi+ and pi-, the highest first; the dotted line shows equal weights."""
    others = np.delete(found.negatives.numpy(), found.query)
    left, right = part.subplots(1, 2, gridspec_kw={"width_ratios": (1, 4)})
    t_pos, t_neg = run.weighing
    for axes, weights, colour, title in (
        (left, found.positives.numpy(), POSITIVE, f"π⁺ of all positives (t⁺ = {t_pos:g})"),
        (right, others, NEGATIVE, f"π⁻ of all negatives (t⁻ = {t_neg:g})"),
    ):
        axes.bar(np.arange(1, len(weights) + 1), np.sort(weights)[::-1], color=colour, width=0.9)
        axes.axhline(1 / len(weights), color="black", linestyle=":", linewidth=1)
        axes.set_title(title, fontsize=9)
        plain_axes(axes, x="", y="")


def _row(
    part: SubFigure,
    title: str,
    shown: Sequence[tuple[Tensor, Tensor | None, float]],
    colour: str,
    query: tuple[Tensor, Tensor | None] | None,
) -> None:
    """Views in a row with their weights, and the original images below.

    Args:
        part: where to draw.
        title: title of the row.
        shown: view, original image and weight of each.
        colour: colour of the frames.
        query: view and original image of the query, shown first.
    """
    columns = max(SHOWN, len(shown)) + 1
    part.suptitle(title, fontsize=9, x=0.01, ha="left")
    axes = part.subplots(2, columns, squeeze=False)
    for place in axes.flat:
        place.set_axis_off()
    if query is not None:
        axes[0, 0].set_title("query", fontsize=8)
        _pictures((axes[0, 0], axes[1, 0]), *query, QUERY)
    for column, (view, original, weight) in enumerate(shown, 1):
        axes[0, column].set_title(f"{weight:.2g}", fontsize=8)
        _pictures((axes[0, column], axes[1, column]), view, original, colour)


def _pictures(axes: Sequence[Axes], view: Tensor, original: Tensor | None, colour: str) -> None:
    """A view, and its original image below it."""
    for place, image in zip(axes, (view, original), strict=True):
        if image is None:
            continue
        place.set_axis_on()
        place.imshow(image.permute(1, 2, 0).numpy(), interpolation="nearest")
        place.set(xticks=[], yticks=[])
        for spine in place.spines.values():
            spine.set(color=colour, linewidth=2)
