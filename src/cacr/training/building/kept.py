"""Features of an encoder that is not trained, computed once: of all captions, and of fixed crops of all images."""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cacr.config import ResolvedSettings
from cacr.data import ArraySource, Loader, Source, StreamSource
from cacr.encoders import Encoder
from cacr.encoders.reader_file import weights_digest
from cacr.errors import UserError
from cacr.frameworks import Framework, ImageText
from cacr.randomness import generator
from cacr.reading.memory import require_memory
from cacr.training.processes.fabric import Fabric
from cacr.views import Preset, Views
from cacr.views.presets import probe_test

AT_ONCE = 64
"""Images per forward pass."""


class KeptImages(NamedTuple):
    """Images without pixels, if only their features are needed.

    Attributes:
        features: (views, images, feature_dim) float32.
        source: Their captions and numbers, without pixels.
    """

    features: Tensor
    source: ArraySource


def keep_features(
    fabric: Fabric, settings: ResolvedSettings, preset: Preset, source: Source, method: Framework
) -> KeptImages | None:
    """Compute the features that each step would compute again; None if the image encoder is trained."""
    if not isinstance(method, ImageText):
        return None
    method.keep_captions(chain.from_iterable(source.captions or ()))
    if method.image_trained:
        return None
    encoder = method.encoder.to(fabric.device).eval()
    return _keep_images(_Images(_key(settings, source, encoder), fabric, settings, preset, source, encoder))


@dataclass(frozen=True)
class _Images:
    """The input of the features; two are equal if their features are: by the key."""

    key: tuple[object, ...]
    fabric: Fabric = field(compare=False)
    settings: ResolvedSettings = field(compare=False)
    preset: Preset = field(compare=False)
    source: Source = field(compare=False)
    encoder: Encoder = field(compare=False)


def _key(settings: ResolvedSettings, source: Source, encoder: Encoder) -> tuple[object, ...]:
    """The weights, the images and their views."""
    names = tuple(source.describe(number) for number in range(len(source)))
    views = settings.preset, repr(settings.view_options), settings.image_size, settings.views
    return weights_digest(encoder), names, views, settings.seed if settings.views > 1 else None


@lru_cache(maxsize=1)  # a timed run is built twice, and comparisons train many heads on the same features
def _keep_images(images: _Images) -> KeptImages:
    """Features of all images in the views of the whole run: the centre crop for one view, else random crops.

    Raises:
        UserError: the source is a stream, or the features do not fit into memory.
    """
    source = images.source
    if isinstance(source, StreamSource):
        raise UserError(
            f"image_trained=false computes the features of all images once; the stream {source.name} is too large "
            "for that: leave it out, or give images in a folder"
        )
    fabric, settings, preset, encoder = images.fabric, images.settings, images.preset, images.encoder
    count = settings.views
    require_memory(
        4 * count * len(source) * encoder.feature_dim,
        f"the features of {len(source):,} images",
        "give fewer --views",
    )
    one = probe_test(settings.image_size, preset.mean, preset.std).views
    views = Views(
        one if count == 1 else preset.for_views(count), preset.mean, preset.std, device=fabric.device
    )
    loader = Loader(
        source,
        batch_size=AT_ONCE,
        seed=settings.seed,
        workers=settings.workers,
        crop=views.crop,
        at_least=views.at_least,
        shuffle=False,
        max_unreadable=settings.max_unreadable,
    )
    features, found = [], []
    with torch.no_grad():
        for number, batch in enumerate(loader.epoch(0)):
            (crops,) = views(batch.images, generator("kept views", settings.seed, number))
            features.append(encoder(crops.flatten(0, 1)).float().cpu().unflatten(0, crops.shape[:2]))
            found.append(batch.index)
    loader.close()
    kept = source.subset(np.concatenate([index.numpy() for index in found]))
    pixels = torch.zeros(len(kept), 3, 1, 1, dtype=torch.uint8)
    blank = ArraySource(
        kept.name, pixels, labels=kept.labels, class_names=kept.class_names, captions=kept.captions
    )
    return KeptImages(torch.cat(features, dim=1), blank)
