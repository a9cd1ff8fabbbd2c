"""The neighbourhood of a query at several epochs, by t-SNE (the paper's figure of the latent space)."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray
from torch import Tensor

from cacr.errors import UserError
from cacr.reporting.figures.registry import register_figure
from cacr.reporting.figures.style import NEGATIVE, POSITIVE, QUERY, plain_axes, text
from cacr.runs.run import Run

REACH = 10.0
"""Half the side of the plane that is drawn, as in the paper."""

MOST = 4
"""Epochs that are drawn, the last ones of those that are kept: after 1, 20, 60 and 200 of 200."""

Places = NDArray[np.float64]


@dataclass(frozen=True)
class Neighbourhood:
    """Places in the plane, the query at the origin.

    Attributes:
        positives: (K, 2) of its other views.
        negatives: (images - 1, 2) of the other images, in the query's view.
    """

    positives: Places
    negatives: Places


def place(z: Tensor, query: int, seed: int = 0) -> Neighbourhood:
    """t-SNE of a query with its positives and negatives, moved so that the query is in the middle.

    Args:
        z: (views, images, dim) unit embeddings of one batch.
        query: number of its image; the query is its first view.
        seed: of t-SNE.
    """
    from sklearn.manifold import TSNE

    others = [index for index in range(z.shape[1]) if index != query]
    vectors = np.concatenate([z[:, query].numpy(), z[0, others].numpy()]).astype(np.float64)
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="random", random_state=seed).fit_transform(vectors)
    places = np.asarray(places, dtype=np.float64) - places[0]
    return Neighbourhood(places[1 : len(z)], places[len(z) :])


@register_figure("tsne", "the neighbourhood of a query at several epochs; one for each run", each_run=True)
def neighbourhood_figure(run: Run, query: int = 0) -> Figure:
    """Query green, positives blue, negatives red; the dashed circle has the radius t-.

    Raises:
        UserError: no embeddings are kept, or the query is not among them.
    """
    snapshots = run.snapshots
    if not snapshots:
        raise UserError(
            f"{run.path} has kept no embeddings: diagnostics were off, or nothing was measured yet"
        )
    if not 0 <= query < snapshots[0].z.shape[1]:
        raise UserError(f"query {query} is not one of the {snapshots[0].z.shape[1]} images that are kept")
    chosen = snapshots[-MOST:]
    figure = Figure(figsize=(3.1 * len(chosen) + 0.4, 3.7), layout="constrained")
    figure.suptitle(text(f"{run.name}: t-SNE around a query"), fontsize=10)
    for axes, snapshot in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
        found = place(snapshot.z, query)
        axes.scatter(*found.negatives.T, s=10, color=NEGATIVE, marker="o", label="negatives")
        axes.scatter(*found.positives.T, s=26, color=POSITIVE, marker="^", label="positives")
        axes.scatter([0], [0], s=60, color=QUERY, marker="*", label="query", zorder=3)
        axes.add_patch(Circle((0, 0), run.t_neg, fill=False, linestyle="--", color="black", linewidth=1))
        outside = int((np.abs(found.negatives) > REACH).any(1).sum())
        plain_axes(axes, x=f"{outside} of {len(found.negatives)} negatives outside", y="")
        ticks = np.linspace(-REACH, REACH, 5)
        axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=ticks, yticks=ticks, aspect="equal")
        axes.set_title(f"epoch {snapshot.epoch:g}", fontsize=9)
    handles, labels = axes.get_legend_handles_labels()
    handles.append(Line2D([], [], linestyle="--", color="black", linewidth=1))
    figure.legend(
        handles,
        [*labels, f"radius t⁻ = {run.t_neg:g}"],
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=8,
    )
    return figure
