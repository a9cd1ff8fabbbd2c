"""Relations between the images of a run: positions on the map, clusters, neighbours, pushes, and pairs to check."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from cacr.data import Source
from cacr.data.pixels import DUPLICATE, correlation
from cacr.data.prepare import Progress
from cacr.data.source import Indices
from cacr.diagnostics.relations import Related, hardest_pushes, nearest_others
from cacr.diagnostics.suspects import ImagePairs, agree, among, one_each, pairs_of
from cacr.features.layout import Points, aligned, clusters, layout
from cacr.features.machine import Machine
from cacr.features.reader import choose_reader
from cacr.losses.engine.pairs import unit
from cacr.reporting.model import RunModel
from cacr.reporting.shown import Shown
from cacr.reporting.sprites import pictures

NEIGHBOURS, PUSHES, CLUSTERS = 8, 6, 10
_MOST_CLUSTERS = 28  # the number of different marks on the map
_CANDIDATES = 500  # pairs of nearest neighbours whose pixels are compared
_COMPARED = 32  # side in pixels at which they are compared

Stage = Callable[[str], AbstractContextManager[Progress]]
"""Starts a stage of the work by its name; yields a function that is called with the finished and the total number."""


def silent(_: str) -> AbstractContextManager[Progress]:
    """A stage that shows nothing."""
    return nullcontext(lambda done, total: None)


@dataclass(frozen=True)
class Relations:
    """The relations between images for one run."""

    places: Points
    clusters: Indices
    neighbours: Related
    pushes: Related


def relate(
    model: RunModel, features: torch.Tensor, shown: Shown, machine: Machine, stage: Stage
) -> Relations:
    """Compute the relations between the shown images from their features (n, feature_dim).

    Neighbours, clusters and positions use read features (:mod:`cacr.features.reader`): by the run's own reader, or by
    one fitted to the shown images.
    """
    _, class_names = shown.labels()
    x = unit(choose_reader(model.encoder, features)(features)).to(machine.device)
    z = model.embed(features).to(machine.device)
    with stage("finding neighbours") as progress:
        neighbours = _on_cpu(nearest_others(x, NEIGHBOURS, progress))
    with stage("computing weights of negatives") as progress:
        pushes = _on_cpu(hardest_pushes(z, PUSHES, model.run.t_neg, progress))
    with stage("drawing the map") as progress:
        progress(0, 1)
        x = x.cpu()
        return Relations(
            layout(x), clusters(x, min(len(class_names) or CLUSTERS, _MOST_CLUSTERS)), neighbours, pushes
        )


def _on_cpu(related: Related) -> Related:
    return Related(related.index.cpu(), related.value.cpu())


def turned(relations: Relations, first: Relations) -> Relations:
    """The same, with positions rotated to be as near as possible to those of another run."""
    places = aligned(relations.places, first.places)
    return Relations(places, relations.clusters, relations.neighbours, relations.pushes)


def pair_lists(
    related: Relations, source: Source, labels: Indices | None, machine: Machine, listed: int
) -> dict[str, ImagePairs]:
    """Three lists of pairs without a common pair: near-duplicates, likely false negatives and hardest negatives."""
    close = pairs_of(related.neighbours)
    close = ImagePairs(close.index[:_CANDIDATES], close.value[:_CANDIDATES])
    images = np.unique(close.index).tolist()
    pixels = np.array(
        [np.asarray(p, np.float64).ravel() for p in pictures(source, images, _COMPARED, machine)]
    )
    row = {image: place for place, image in enumerate(images)}
    first, second = ([row[i] for i in side] for side in close.index.T.tolist())
    same = correlation(pixels[first], pixels[second]) if len(images) else np.empty(0)
    order = np.argsort(-same, kind="stable")
    duplicates = ImagePairs(close.index[order], same[order]).where(same[order] >= DUPLICATE)
    pushed = pairs_of(related.pushes)
    pushed = pushed.where(~among(pushed, duplicates))
    alike = agree(pushed, related.neighbours)
    really = ~alike
    if labels is not None:  # an unknown label may be any class
        a, b = labels[pushed.index].T
        really &= (a != b) | (a < 0)
    return {
        "hardest": one_each(pushed.where(really), listed),
        "false": one_each(pushed.where(alike), listed),
        "duplicates": one_each(duplicates, listed),
    }
