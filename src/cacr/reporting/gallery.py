"""The images of the report: the map, neighbours, suspicious pairs, and pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cacr.diagnostics.suspects import ImagePairs
from cacr.errors import UserError
from cacr.evaluation.guest import Guest
from cacr.feature_view import images_at_once
from cacr.features import encode
from cacr.features.machine import Machine, choose_machine
from cacr.randomness import numpy_generator
from cacr.reporting.model import RunModel, load_model
from cacr.reporting.packing import packed
from cacr.reporting.queries import QUERIES, weight_figures
from cacr.reporting.relations import Relations, Stage, pair_lists, relate, silent, turned
from cacr.reporting.shown import MOST_PICTURES, MOST_POINTS, Shown, open_shown, packed_names
from cacr.reporting.sprites import Sheet, cell_side, pictures
from cacr.runs.run import Run

LISTED = 12
# With 50,000 points, whose arrays and names take up to 6 MB, these limits keep the page under 15 MB (base64 adds a
# third).
_SMALL, _SMALL_BYTES = 48, 4_800_000
_LARGE, _LARGE_BYTES = 96, 1_200_000
_RUNS_IN_FULL = 4  # with more runs, each gets shorter lists and fewer queries
_NO_LABEL = 2**16 - 1


def build_gallery(
    runs: Sequence[Run],
    *,
    data: str | None = None,
    images: str | None = None,
    labels: Path | None = None,
    data_root: Path | None = None,
    download: bool = False,
    points: int = MOST_POINTS,
    stage: Stage = silent,
) -> dict[str, Any]:
    """Everything in the report that needs images, for one or several runs on the same images.

    Args:
        runs: Runs of the report.
        data: Data with the images; default: that of the first run.
        images: A list of images to use, or ``except:FILE``.
        labels: A CSV file with labels of all or some images.
        data_root: Folder of named data sets; default: that of the first run.
        download: Allow downloads of data sets.
        points: Number of images on the map, over all runs.
        stage: Shows progress.

    Raises:
        UserError: a run has no encoder, or the data does not exist.
    """
    if points < 1:
        raise UserError(f"the map needs at least one point (got {points})")
    if data is None and isinstance(runs[0], Guest):
        raise UserError(f"{runs[0].text} has no images of its own: give some with --data")
    models = [load_model(run) for run in runs]
    shown = open_shown(
        runs[0].settings,
        data,
        images=images,
        labels=labels,
        data_root=data_root,
        download=download,
        points=max(1, min(points, MOST_POINTS) // len(models)),
    )
    largest = max(model.encoder.info.image_size for model in models)
    machine = choose_machine([shown.opened], batch_size=images_at_once(largest))
    relations: list[Relations] = []
    for number, model in enumerate(models):
        shown, features = _encode(model, shown, machine, stage, first=number == 0)
        relations.append(relate(model, features, shown, machine, stage))
    if len(relations) > 1:
        relations[1:] = [turned(r, relations[0]) for r in relations[1:]]
    return _packed(models, shown, relations, machine, stage)


def _encode(
    model: RunModel, shown: Shown, machine: Machine, stage: Stage, *, first: bool
) -> tuple[Shown, torch.Tensor]:
    """Features of the shown images; the first pass finds the readable ones."""
    tolerated = model.run.settings.max_unreadable if first else 0.0
    with stage("encoding") as progress:
        found = encode(model.encoder, shown.source, machine, progress, max_unreadable=tolerated)
    return shown.only(found.index.numpy()), found.values


def _packed(
    models: Sequence[RunModel], shown: Shown, relations: Sequence[Relations], machine: Machine, stage: Stage
) -> dict[str, Any]:
    source = shown.source
    small = Sheet(cell_side(source, _SMALL), _SMALL_BYTES)
    large = Sheet(_LARGE, _LARGE_BYTES)
    labels, class_names = shown.labels()
    maps, listed = [], set()
    for model, related in zip(models, relations, strict=True):
        lists = pair_lists(related, source, labels, machine, _part(LISTED, len(models)))
        listed |= {image for pairs in lists.values() for image in pairs.index.ravel().tolist()}
        maps.append(_packed_map(related, lists) | {"note": model.note, "t_neg": model.run.t_neg})
    with stage("making pictures") as progress:
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


def _part(count: int, runs: int) -> int:
    """Length of a list if there are several runs."""
    return max(1, count * _RUNS_IN_FULL // max(runs, _RUNS_IN_FULL))


def _packed_map(related: Relations, lists: dict[str, ImagePairs]) -> dict[str, Any]:
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
    """Ascending numbers of images with a thumbnail: those of the lists, then a random sample of others."""
    if count <= MOST_PICTURES:
        return list(range(count))
    others = np.setdiff1d(np.arange(count), sorted(first))
    drawn = numpy_generator("thumbnails").choice(others, MOST_PICTURES - len(first), replace=False)
    return sorted([*first, *drawn.tolist()])
