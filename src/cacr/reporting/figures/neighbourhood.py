"""The neighbourhood of a query at several epochs, by t-SNE (the paper's figure of the latent space)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray
from torch import Tensor

from cacr.errors import UserError
from cacr.reporting.figures.registry import register_figure
from cacr.reporting.figures.style import NEGATIVE, POSITIVE, QUERY, plain_axes, text
from cacr.runs.run import Run
from cacr.runs.snapshots import Snapshot

REACH = 10.0
"""Half the side of the plotted area, as in the paper."""

SHARES = (1 / 200, 20 / 200, 1.0)
"""Shares of a run after which it is drawn: the paper shows epochs 1, 20 and 200 of 200."""

Places = NDArray[np.float64]


@dataclass(frozen=True)
class Neighbourhood:
    """Positions in the plane, with the query at the origin.

    Attributes:
        positives: (K, 2) of its other views.
        negatives: (images - 1, 2) of the other images, in the query's view.
    """

    positives: Places
    negatives: Places


def place(z: Tensor, query: int, seed: int = 0) -> Neighbourhood:
    """t-SNE of a query with its positives and negatives, with the query at the origin.

    Args:
        z: (views, images, dim) unit embeddings of one batch.
        query: number of its image; the query is its first view.
        seed: seed of t-SNE.
    """
    from sklearn.manifold import TSNE

    others = [index for index in range(z.shape[1]) if index != query]
    vectors = np.concatenate([z[:, query].numpy(), z[0, others].numpy()]).astype(np.float64)
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="random", random_state=seed).fit_transform(vectors)
    places = np.asarray(places, dtype=np.float64) - places[0]
    return Neighbourhood(places[1 : len(z)], places[len(z) :])


def shown(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots nearest to the shares of the run in the paper, each once."""
    last = snapshots[-1].epoch
    nearest = {
        min(range(len(snapshots)), key=lambda n: abs(snapshots[n].epoch - share * last)) for share in SHARES
    }
    return [snapshots[number] for number in sorted(nearest)]


@register_figure(
    "tsne", "the neighbourhood of a query at three epochs, one row per run", each_run=False, of_query=True
)
def neighbourhood_figure(runs: Sequence[Run], query: int = 0) -> Figure:
    """Query green, positives blue, negatives red; the dashed circle has the radius t-.

    Raises:
        UserError: no embeddings are stored, or the query is not among them.
    """
    chosen = []
    for run in runs:
        snapshots = run.snapshots
        if not snapshots:
            raise UserError(
                f"{run.path} has no stored embeddings: diagnostics were off, or nothing was measured yet"
            )
        if not 0 <= query < snapshots[0].z.shape[1]:
            raise UserError(
                f"query {query} is not one of the {snapshots[0].z.shape[1]} images stored in {run.path}"
            )
        chosen.append(shown(snapshots))
    columns = max(map(len, chosen))
    figure = Figure(figsize=(3.1 * columns + 0.4, 3.4 * len(runs) + 0.3), layout="constrained")
    grid = figure.subplots(len(runs), columns, squeeze=False)
    for row, run, snapshots in zip(grid, runs, chosen, strict=True):
        for axes in row[len(snapshots) :]:
            axes.set_axis_off()
        for axes, snapshot in zip(row, snapshots, strict=False):
            _draw(axes, place(snapshot.z, query), run.t_neg)
            axes.set_title(f"epoch {snapshot.epoch:g}", fontsize=9)
        row[0].set_ylabel(f"{text(run.name)}\nt⁻ = {run.t_neg:g}", fontsize=9)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    handles.append(Line2D([], [], linestyle="--", color="black", linewidth=1))
    labels.append("radius t⁻")
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _draw(axes: Axes, found: Neighbourhood, t_neg: float) -> None:
    """One neighbourhood."""
    for places, size, colour, marker, name in (
        (found.negatives, 10, NEGATIVE, "o", "negatives"),
        (found.positives, 26, POSITIVE, "^", "positives"),
    ):
        axes.scatter(places[:, 0], places[:, 1], s=size, color=colour, marker=marker, label=name)
    axes.scatter([0], [0], s=60, color=QUERY, marker="*", label="query", zorder=3)
    axes.add_patch(Circle((0, 0), t_neg, fill=False, linestyle="--", color="black", linewidth=1))
    outside = int((np.abs(found.negatives) > REACH).any(1).sum())
    plain_axes(axes, x=f"{outside} of {len(found.negatives)} negatives outside", y="")
    ticks = np.linspace(-REACH, REACH, 5)
    axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=ticks, yticks=ticks, aspect="equal")
