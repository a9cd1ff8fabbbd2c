"""The paper's weights figure, for several queries: positives with pi+, negatives with pi-."""

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cacr.data import Loader, Source
from cacr.data.source import Indices
from cacr.features.machine import Machine
from cacr.randomness import generator, numpy_generator
from cacr.reporting.model import RunModel
from cacr.reporting.sprites import Sheet, SquareCrop
from cacr.reporting.weighing import Weighted, weigh
from cacr.views import PRESETS, Views
from cacr.views.pixels import as_bytes, as_rgb, unnormalised

QUERIES, BATCH = 4, 128
_POSITIVES, _NEGATIVES = 8, 5


def weight_figures(
    model: RunModel, source: Source, sheet: Sheet, machine: Machine, *, queries: int = QUERIES, seed: int = 0
) -> dict[str, Any]:
    """Queries with the weights of their positives and of their nearest and farthest negatives.

    A random batch goes through the run's own views; its first images are the queries, in their first view. Positives
    are their other views, negatives the first views of the other images.

    Args:
        model: The run's networks.
        source: Its images, all readable.
        sheet: Receives the pictures.
        machine: Device and workers.
        queries: Number of queries.
        seed: Seed of batch and views.

    Returns:
        A dictionary with ``t_pos``, ``t_neg``, ``batch`` and ``queries``. A query has ``cell``, ``image``,
        ``positives`` (each with ``cell`` and ``weight``), ``most`` and ``least``. Cells are numbers in ``sheet``,
        images numbers in ``source``. Weights are relative: 1 means the weight if all weights are equal.
    """
    settings = model.run.settings
    size = settings.batch_size if isinstance(settings.batch_size, int) else BATCH
    rng = numpy_generator("queries", seed)
    chosen = np.sort(rng.choice(len(source), min(size, BATCH, len(source)), replace=False))
    found: dict[str, Any] = {
        "t_pos": model.run.t_pos,
        "t_neg": model.run.t_neg,
        "batch": len(chosen),
        "queries": [],
    }
    if len(chosen) < 2:
        return found
    views = _views(model)
    made = _make_views(source.subset(chosen), views, machine, seed)
    z = torch.cat([_embed(model, part, machine) for part in made])
    weights = weigh(z, *model.run.weighing)
    shown = [view for part in made for view in _pictures(part, views, sheet.side)]  # view -> image -> picture
    for query in rng.permutation(len(chosen))[:queries].tolist():
        found["queries"].append(_shown_query(weights.of(query), shown, chosen, sheet))
    return found


def _shown_query(
    weighted: Weighted, shown: list[list[Image.Image]], chosen: Indices, sheet: Sheet
) -> dict[str, Any]:
    """One entry of ``queries``; a weight of 1 means the weight if all weights are equal."""
    query, positives, negatives = weighted.query, len(weighted.positives), len(weighted.negatives) - 1

    def negative(image: int) -> dict[str, Any]:
        weight = float(weighted.negatives[image] * negatives)
        return {"cell": sheet.add(shown[0][image]), "image": int(chosen[image]), "weight": weight}

    most, least = weighted.extremes(_NEGATIVES)
    return {
        "cell": sheet.add(shown[0][query]),
        "image": int(chosen[query]),
        "positives": [
            {"cell": sheet.add(shown[view + 1][query]), "weight": float(weighted.positives[view] * positives)}
            for view in weighted.strongest(_POSITIVES)
        ],
        "most": [negative(image) for image in most],
        "least": [negative(image) for image in least],
    }


def _views(model: RunModel) -> Views:
    settings = model.run.settings
    preset = PRESETS[settings.preset].resized(settings.image_size).with_options(**settings.view_options)
    count = max(2, settings.views)  # a run with captions may have only one view
    return Views(preset.for_views(count), preset.mean, preset.std)


def _make_views(source: Source, views: Views, machine: Machine, seed: int) -> list[Tensor]:
    """For each group of views, (views, images, 3, size, size), normalised."""
    draws = generator("query views", seed)
    loader = Loader(
        source,
        batch_size=len(source),
        seed=seed,
        workers=machine.workers,
        crop=views.crop,
        shuffle=False,
        at_least=views.at_least,
    )
    try:
        batch = next(loader.epoch(0))
    finally:
        loader.close()
    return views(batch.images, draws)


def _embed(model: RunModel, views: Tensor, machine: Machine) -> Tensor:
    """Unit embeddings (views, images, dim) of views (views, images, 3, size, size)."""
    with torch.inference_mode():
        encoder = model.encoder.to(machine.device)
        features = torch.stack([encoder(view.to(machine.device)).float().cpu() for view in views])
    return model.embed(features.flatten(0, 1)).reshape(*features.shape[:2], -1)


def _pictures(views: Tensor, made_by: Views, side: int) -> list[list[Image.Image]]:
    """Undo the normalisation: for each view, the pictures of the images."""
    pixels = as_bytes(as_rgb(unnormalised(views, made_by.mean, made_by.std)))
    fit = SquareCrop(side).picture
    return [[fit(Image.fromarray(image.permute(1, 2, 0).numpy())) for image in view] for view in pixels]
