"""The images of the page: the map, their neighbours, the suspicious pairs, and their pictures."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cacr.data import Source
from cacr.data.source import Indices
from cacr.diagnostics.layout import Points, aligned, clusters, layout
from cacr.diagnostics.relations import Related, hardest_pushes, nearest
from cacr.diagnostics.suspects import DUPLICATE, Pairs, agree, among, correlation, one_each, pairs_of
from cacr.errors import UserError
from cacr.features import encode
from cacr.features.encode import Progress
from cacr.features.machine import Machine, choose_machine
from cacr.losses.engine.pairs import unit
from cacr.randomness import numpy_generator
from cacr.reporting.model import RunModel, load_model
from cacr.reporting.packing import packed
from cacr.reporting.queries import QUERIES, weight_figures
from cacr.reporting.shown import MOST_PICTURES, MOST_POINTS, Shown, open_shown, packed_names
from cacr.reporting.sprites import Sheet, cell_side, pictures
from cacr.runs.run import Run

NEIGHBOURS, PUSHES, LISTED, CLUSTERS = 8, 6, 12, 10
_MOST_CLUSTERS = 28  # as many as there are marks on the map
_CANDIDATES = 500  # pairs of nearest neighbours whose pixels are compared
_COMPARED = 32  # side in pixels at which they are
# With 50,000 points, whose arrays and names take up to 6 MB, these keep the page under 15 MB (base64 adds a third).
_SMALL, _SMALL_BYTES = 48, 4_800_000
_LARGE, _LARGE_BYTES = 96, 1_200_000
_RUNS_IN_FULL = 4  # more runs get shorter lists and fewer queries
_NO_LABEL = 2**16 - 1

Stage = Callable[[str], AbstractContextManager[Progress]]
"""Opens a stage of the work by its name; yields what is called with the number of things done and in all."""


def silent(_: str) -> AbstractContextManager[Progress]:
    """A stage that shows nothing."""
    return nullcontext(lambda done, total: None)


@dataclass(frozen=True)
class _Relations:
    """What one run makes of the images."""

    places: Points
    clusters: Indices
    neighbours: Related
    pushes: Related


def build_gallery(
    runs: Sequence[Run],
    *,
    data: str | None = None,
    data_root: Path | None = None,
    download: bool = False,
    points: int = MOST_POINTS,
    stage: Stage = silent,
) -> dict[str, Any]:
    """Everything on the page that needs the images, for one run or several on the same images.

    Args:
        runs: Whose page it is.
        data: Whose images; those of the first run by default.
        data_root: Where named data sets lie; where the first run found them by default.
        download: Allow downloads of data sets.
        points: Images on the map, over all runs.
        stage: Shows progress.

    Raises:
        UserError: a run has no encoder, or the data is not there.
    """
    if points < 1:
        raise UserError(f"the map needs at least one point (got {points})")
    models = [load_model(run) for run in runs]
    shown = open_shown(
        runs[0].settings,
        data,
        data_root=data_root,
        download=download,
        points=max(1, min(points, MOST_POINTS) // len(models)),
    )
    machine = choose_machine([shown.opened])
    relations: list[_Relations] = []
    for number, model in enumerate(models):
        shown, features = _encode(model, shown, machine, stage, first=number == 0)
        relations.append(_relate(model, features, shown, machine, stage))
    if len(relations) > 1:
        relations[1:] = [_turned(r, relations[0]) for r in relations[1:]]
    return _packed(models, shown, relations, machine, stage)


def _encode(
    model: RunModel, shown: Shown, machine: Machine, stage: Stage, *, first: bool
) -> tuple[Shown, torch.Tensor]:
    """Features of the shown images; the first pass finds out which of them can be read."""
    tolerated = model.run.settings.max_unreadable if first else 0.0
    with stage("encoding") as progress:
        found = encode(model.encoder, shown.source, machine, progress, max_unreadable=tolerated)
    return shown.only(found.index.numpy()), found.values


def _relate(
    model: RunModel, features: torch.Tensor, shown: Shown, machine: Machine, stage: Stage
) -> _Relations:
    _, class_names = shown.labels()
    x = unit(features).to(machine.device)
    z = model.embed(features).to(machine.device)
    with stage("finding neighbours") as progress:
        neighbours = _on_cpu(nearest(x, NEIGHBOURS, progress))
    with stage("weighing negatives") as progress:
        pushes = _on_cpu(hardest_pushes(z, PUSHES, model.run.t_neg, progress))
    with stage("drawing the map") as progress:
        progress(0, 1)
        x = x.cpu()
        return _Relations(
            layout(x), clusters(x, min(len(class_names) or CLUSTERS, _MOST_CLUSTERS)), neighbours, pushes
        )


def _on_cpu(related: Related) -> Related:
    return Related(related.index.cpu(), related.value.cpu())


def _turned(relations: _Relations, first: _Relations) -> _Relations:
    places = aligned(relations.places, first.places)
    return _Relations(places, relations.clusters, relations.neighbours, relations.pushes)


def _packed(
    models: Sequence[RunModel], shown: Shown, relations: Sequence[_Relations], machine: Machine, stage: Stage
) -> dict[str, Any]:
    source = shown.source
    small = Sheet(cell_side(source, _SMALL), _SMALL_BYTES)
    large = Sheet(_LARGE, _LARGE_BYTES)
    labels, class_names = shown.labels()
    maps, listed = [], set()
    for model, related in zip(models, relations, strict=True):
        lists = _lists(related, source, labels, machine, _part(LISTED, len(models)))
        listed |= {image for pairs in lists.values() for image in pairs.index.ravel().tolist()}
        maps.append(_packed_map(related, lists) | {"note": model.note, "t_neg": model.run.t_neg})
    with stage("cutting out pictures") as progress:
        large_cells = {}
        for image, picture in zip(
            sorted(listed), pictures(source, sorted(listed), _LARGE, machine), strict=True
        ):
            large_cells[image] = large.add(picture)
        sample = _sample(len(shown.numbers), listed)
        for done, picture in enumerate(pictures(source, sample, small.side, machine), 1):
            small.add(picture)
            progress(done, len(sample))
    for model, entry in zip(models, maps, strict=True):
        entry["weights"] = weight_figures(model, source, large, machine, queries=_part(QUERIES, len(models)))
    folder, names = shown.names()
    known = None if labels is None else np.where(labels < 0, _NO_LABEL, labels)
    return {
        "digests": [model.run.digest for model in models],
        "data": shown.data,
        "count": len(shown.numbers),
        "total": shown.total,
        "folder": folder,
        "names": packed_names(names),
        "labels": None if known is None else packed(known, np.uint16),
        "classes": class_names,
        "sample": packed(sample, np.uint16),
        "thumbnails": small.packed(),
        "large": large.packed(),
        "large_of": {str(image): cell for image, cell in large_cells.items()},
        "maps": maps,
    }


def _lists(
    related: _Relations, source: Source, labels: Indices | None, machine: Machine, listed: int
) -> dict[str, Pairs]:
    """Three lists of pairs without a pair in common: near-duplicates, likely false and hardest negatives."""
    close = pairs_of(related.neighbours)
    close = Pairs(close.index[:_CANDIDATES], close.value[:_CANDIDATES])
    images = np.unique(close.index).tolist()
    pixels = np.array(
        [np.asarray(p, np.float64).ravel() for p in pictures(source, images, _COMPARED, machine)]
    )
    row = {image: place for place, image in enumerate(images)}
    first, second = ([row[i] for i in side] for side in close.index.T.tolist())
    same = correlation(pixels[first], pixels[second]) if len(images) else np.empty(0)
    order = np.argsort(-same, kind="stable")
    duplicates = Pairs(close.index[order], same[order]).where(same[order] >= DUPLICATE)
    pushed = pairs_of(related.pushes)
    pushed = pushed.where(~among(pushed, duplicates))
    alike = agree(pushed, related.neighbours)
    really = ~alike if labels is None else ~alike & (labels[pushed.index[:, 0]] != labels[pushed.index[:, 1]])
    return {
        "hardest": one_each(pushed.where(really), listed),
        "false": one_each(pushed.where(alike), listed),
        "duplicates": one_each(duplicates, listed),
    }


def _part(count: int, runs: int) -> int:
    """How much of a run is shown beside others."""
    return max(1, count * _RUNS_IN_FULL // max(runs, _RUNS_IN_FULL))


def _packed_map(related: _Relations, lists: dict[str, Pairs]) -> dict[str, Any]:
    weights = related.pushes.value.double().clamp_min(1e-12).log().mul(1000).round().add(32768)
    return {
        "places": packed((related.places * 65535).round().clip(0, 65535), np.uint16),
        "clusters": packed(related.clusters, np.uint8),
        "neighbours": packed(related.neighbours.index, np.uint16),
        "cosines": packed((related.neighbours.value * 127).round().clamp(-127, 127), np.int8),
        "pushes": packed(related.pushes.index, np.uint16),
        "weights_log": packed(weights.clamp(0, 65535), np.uint16),
        "neighbours_each": related.neighbours.index.shape[1],
        "pushes_each": related.pushes.index.shape[1],
        "lists": {
            name: [[a, b, value] for (a, b), value in zip(p.index.tolist(), p.value.tolist(), strict=True)]
            for name, p in lists.items()
        },
    }


def _sample(count: int, first: set[int]) -> list[int]:
    """Ascending numbers of the images that get a thumbnail: those of the lists, then as many drawn as fit."""
    if count <= MOST_PICTURES:
        return list(range(count))
    others = np.setdiff1d(np.arange(count), sorted(first))
    drawn = numpy_generator("thumbnails").choice(others, MOST_PICTURES - len(first), replace=False)
    return sorted([*first, *drawn.tolist()])
