"""Filters for the first layer of an encoder, computed from the training images."""

import numpy as np
import torch
from torch import Tensor, nn

from cacr.config import ResolvedSettings
from cacr.data import Loader, Source, StreamSource
from cacr.data.errors import too_many_unreadable
from cacr.encoders import cut_patches, filters_for, first_layer
from cacr.randomness import generator, numpy_generator
from cacr.training.processes.fabric import Fabric
from cacr.views import Preset, Views
from cacr.views.presets import probe_test

IMAGES = 1024
"""Number of images whose patches are used."""

BATCH = 64


def filters_from_images(
    fabric: Fabric, settings: ResolvedSettings, preset: Preset, source: Source, backbone: nn.Module
) -> Tensor:
    """Compute filters that whiten patches of the training images; every process must call this.

    Images are resized and cropped at the centre, as in evaluation. The seed chooses images and patches. The first
    process computes the filters and sends them to the others, so that all start with the same weights.

    Args:
        fabric: the process.
        settings: settings of the run.
        preset: has the mean and standard deviation to normalise images.
        source: the images to train on.
        backbone: the network whose first layer is replaced.
    """
    filters = None
    if fabric.is_global_zero:
        layer, draw = first_layer(backbone, settings.channels), generator("first layer", settings.seed)
        patches = _patches(settings, preset, source, layer, draw)
        filters = filters_for(layer, patches, draw)
    shared = fabric.broadcast(filters)
    assert shared is not None
    return shared.cpu()


def _patches(
    settings: ResolvedSettings, preset: Preset, source: Source, layer: nn.Conv2d, draw: torch.Generator
) -> Tensor:
    """Patches (n, 3 * height * width) of a sample of the images."""
    seen = probe_test(settings.image_size, preset.mean, preset.std)
    views = Views(seen.views, seen.mean, seen.std)
    loader = Loader(
        source.subset(_sample(source, settings.seed)),
        batch_size=BATCH,
        seed=settings.seed,
        workers=settings.workers,
        crop=views.crop,
        shuffle=False,
        at_least=views.at_least,
        max_unreadable=1.0,
    )
    try:
        found = [cut_patches(views(batch.images, draw)[0][0], layer, draw) for batch in loader.epoch(0)]
    finally:
        loader.close()
    if not found:
        raise too_many_unreadable([*loader.unreadable.values()], len(loader.source), 0.0)
    return torch.cat(found)


def _sample(source: Source, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ascending numbers of images; the first images of a stream, because random access to it is slow."""
    count = min(IMAGES, len(source))
    if isinstance(source, StreamSource):
        return np.arange(count)
    return np.sort(numpy_generator("first layer", seed).permutation(len(source))[:count])
