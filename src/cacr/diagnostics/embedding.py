"""Embeddings of the held-out images: the same views at every measurement, by a model at rest."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from cacr.data import Batch, Loader, Source
from cacr.data.captions import without_empty
from cacr.data.errors import too_many_unreadable
from cacr.data.order import share
from cacr.features.encode import centre_view
from cacr.frameworks import ImageText, gather
from cacr.randomness import generator
from cacr.training.held_out import KEPT_BYTES, MEASURED_AT_ONCE
from cacr.training.job import Training
from cacr.training.resolve import MEASURED_VIEWS, STRONG_VIEWS
from cacr.views import Augmentation, Views, strengthened

CHUNK = MEASURED_AT_ONCE
"""Images in a forward pass, and the unit in which they are shared out."""

MOST_BYTES = KEPT_BYTES
"""Of crops that are kept in memory; fewer images are measured where they would take more."""


PIXELS = 32
"""Side, at most, of images whose pixels are taken for features."""


class ViewFeatures(NamedTuple):
    """Features of the same images, seen in several ways.

    Attributes:
        centre: (images, dim) in the one view of evaluation.
        random: (2, images, dim) in random views, as in training.
        strong: (2, images, dim) in stronger views (:func:`cacr.views.strengthened`).
    """

    centre: Tensor
    random: Tensor
    strong: Tensor


class Embedded(NamedTuple):
    """What the model makes of the images of all processes.

    Attributes:
        z: (views, images, dim) embeddings of random views, before they are made unit vectors.
        features: those of the encoder.
        labels: (images,) or None.
        texts: (images, dim) embeddings of a caption of each image, where the method reads captions.
    """

    z: Tensor
    features: ViewFeatures
    labels: Tensor | None
    texts: Tensor | None = None


class HeldOutImages:
    """The images to measure on; images of files are cropped once, and all draws are always the same.

    Args:
        job: whose model looks at them.
        source: all images to measure on; each process takes its share.

    Attributes:
        views: makes the views: the one of evaluation, random ones as in training, stronger ones.
        centre: which of them is the one of evaluation.
        random: which of them are the random ones.
    """

    centre = slice(0, 1)

    def __init__(self, job: Training, source: Source) -> None:
        self._job = job
        info = job.method.encoder.info
        random = measured_views(job.views)
        strong = [strengthened(view) for view in random[:STRONG_VIEWS]]
        self.random = slice(1, 1 + len(random))
        self.views = Views(
            [centre_view(info), *random, *strong],
            job.views.mean,
            job.views.std,
            device=job.fabric.device,
        )
        if source.image_size is None:  # their crops are kept
            each = sum(self.views.channels * view.size**2 for view in self.views.augmentations)
            source = source.subset(np.arange(min(len(source), max(2, MOST_BYTES // each))))
        fabric = job.fabric
        # Whole chunks are shared out, so that draws do not depend on the number of processes.
        chunks = -(-len(source) // CHUNK)
        self._shared = chunks >= fabric.world_size  # otherwise everybody looks at all of them
        rank, processes = (fabric.global_rank, fabric.world_size) if self._shared else (0, 1)
        mine = share(chunks, rank, processes)
        self._first = mine.start * CHUNK
        self._loader = Loader(
            source.subset(np.arange(self._first, min(mine.stop * CHUNK, len(source)))),
            batch_size=CHUNK,
            seed=job.settings.seed,
            workers=job.settings.workers,
            crop=self.views.crop,
            shuffle=False,
            at_least=self.views.at_least,
            max_unreadable=1.0,
        )
        # Files are decoded once, and what was cut out of them is kept; images in memory are there already.
        self._kept = list(self._loader.epoch(0)) if source.image_size is None else None
        self._loader.close()
        if self._kept == []:
            raise too_many_unreadable([*self._loader.unreadable.values()], len(self._loader.source), 0.0)
        labels = [batch.labels for batch in self._batches()]
        known = [each for each in labels if each is not None]
        self._labels = torch.cat(known) if len(known) == len(labels) else None

    def _batches(self) -> Iterable[Batch]:
        return self._loader.epoch(0) if self._kept is None else self._kept

    def chunks(self) -> Iterator[list[Tensor]]:
        """Views of a few images of this process at a time, in the order of ``views``."""
        for number, batch in enumerate(self._batches()):
            draw = generator("diagnostics", self._job.settings.seed, self._first + number * CHUNK)
            yield self.views(batch.images, draw)

    @torch.no_grad()
    def embed(self) -> Embedded:
        """Pass the images through the model; every process must call this."""
        method = self._job.method
        features, embeddings = [], []
        with at_rest(method):
            for views in self.chunks():  # made in float32, as those of training are
                with self._job.fabric.autocast():
                    seen = torch.cat(
                        [method.encoder(x.flatten(0, 1)).unflatten(0, x.shape[:2]) for x in views]
                    )
                    random = seen[self.random]
                    z = method.head(random.flatten(0, 1)).unflatten(0, random.shape[:2])
                embeddings.append(z.float())
                features.append(self._compared(seen).float())
        z = torch.cat(embeddings, dim=1)
        labels = None if self._labels is None else self._labels.to(z.device)
        if labels is not None and self._shared:
            labels = gather(labels[None, :, None])[0, :, 0]
        return Embedded(gather(z) if self._shared else z, self._of_all(features), labels, self._texts())

    def _texts(self) -> Tensor | None:
        """Embeddings of the first caption of each image of all processes; None without captions."""
        method = self._job.method
        told = [each for batch in self._batches() for each in batch.captions or ()]
        chosen = [next(iter(without_empty(captions)), "") for captions in told]
        if not isinstance(method, ImageText) or not chosen or not all(chosen):
            return None
        with at_rest(method):
            texts = method.embed_captions(chosen).float()
        return gather(texts[None])[0] if self._shared else texts

    @torch.no_grad()
    def pixels(self) -> ViewFeatures:
        """The normalised pixels of the same views, at most 32 x 32, as if an encoder had made them; as ``embed``."""
        return self._of_all(
            [self._compared(torch.cat([_pixels(x) for x in views])) for views in self.chunks()]
        )

    def _compared(self, seen: Tensor) -> Tensor:
        """Of all views (views, ...) those that are compared: of evaluation, two random ones, the stronger ones."""
        return torch.cat([seen[: 1 + STRONG_VIEWS], seen[self.random.stop :]])

    def _of_all(self, features: list[Tensor]) -> ViewFeatures:
        """Of the images of all processes, from (views, images, dim) of the chunks of this one."""
        values = torch.cat(features, dim=1)
        if self._shared:
            values = gather(values)
        return ViewFeatures(values[0], values[1 : 1 + STRONG_VIEWS], values[1 + STRONG_VIEWS :])


def _pixels(views: Tensor) -> Tensor:
    """(views, images, 3 s s) of views (views, images, 3, size, size), s = min(size, 32)."""
    side = min(PIXELS, views.shape[-1])
    small = interpolate(views.flatten(0, 1), (side, side), mode="area")
    return small.flatten(1).view(*views.shape[:2], -1)


def measured_views(views: Views) -> list[Augmentation]:
    """The views of training that are measured: five, those of the largest size by turns.

    So that figures of runs with one positive show as many positives as those of others.
    """
    size = max(view.size for view in views.augmentations)
    large = [view for view in views.augmentations if view.size == size]
    return (MEASURED_VIEWS * large)[:MEASURED_VIEWS]


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Evaluation mode while the block runs; afterwards every part is in the mode that it was in."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
