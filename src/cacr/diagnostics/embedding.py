"""Embed the held-out images: the same views at every measurement, with the model in evaluation mode."""

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
from cacr.training.building.held_out import KEPT_BYTES, MEASURED_AT_ONCE
from cacr.training.building.job import Training
from cacr.training.settings.resolve import MEASURED_VIEWS, STRONG_VIEWS
from cacr.views import Augmentation, Views, strengthened

CHUNK = MEASURED_AT_ONCE
"""Images per forward pass; also the unit in which images are divided among processes."""

MOST_BYTES = KEPT_BYTES
"""Bytes of crops that are kept in memory; if they take more, fewer images are measured."""


PIXELS = 32
"""Largest side of images whose pixels are used as features."""


class ViewFeatures(NamedTuple):
    """Features of the same images in several views.

    Attributes:
        centre: (images, dim) in the evaluation view.
        random: (2, images, dim) in random views, as in training.
        strong: (2, images, dim) in stronger views (:func:`cacr.views.strengthened`).
    """

    centre: Tensor
    random: Tensor
    strong: Tensor


class Embedded(NamedTuple):
    """Embeddings and features of the images of all processes.

    Attributes:
        z: (views, images, dim) embeddings of random views, before normalisation.
        features: features of the encoder.
        labels: (images,) or None.
        texts: (images, dim) embeddings of one caption per image, if the method reads captions.
    """

    z: Tensor
    features: ViewFeatures
    labels: Tensor | None
    texts: Tensor | None = None


class HeldOutImages:
    """The images to measure on; image files are cropped once, and all random numbers are always the same.

    Args:
        job: the run whose model is measured.
        source: all images to measure on; each process takes a share.

    Attributes:
        views: makes the views: the evaluation view, random views as in training, and stronger views.
        centre: index of the evaluation view.
        random: indices of the random views.
        count: number of images, over all processes.
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
        if source.image_size is None:  # the crops of files are kept
            each = sum(self.views.channels * view.size**2 for view in self.views.augmentations)
            source = source.subset(np.arange(min(len(source), max(2, MOST_BYTES // each))))
        self.count = len(source)
        fabric = job.fabric
        # Whole chunks are divided among processes, so that random numbers do not depend on the number of processes.
        chunks = -(-len(source) // CHUNK)
        self._shared = chunks >= fabric.world_size  # otherwise every process measures all images
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
        # Files are decoded once and their crops are kept; arrays are in memory already.
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
            for views in self.chunks():  # in float32, as in training
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
        """The normalised pixels of the same views, at most 32 x 32, used as features; every process must call this."""
        side = min(PIXELS, *(view.size for view in self.views.augmentations))
        return self._of_all(
            [self._compared(torch.cat([_pixels(x, side) for x in views])) for views in self.chunks()]
        )

    def _compared(self, seen: Tensor) -> Tensor:
        """Select the views that are compared: the evaluation view, two random views, the stronger views."""
        return torch.cat([seen[: 1 + STRONG_VIEWS], seen[self.random.stop :]])

    def _of_all(self, features: list[Tensor]) -> ViewFeatures:
        """Features of the images of all processes, from (views, images, dim) of the chunks of this process."""
        values = torch.cat(features, dim=1)
        if self._shared:
            values = gather(values)
        return ViewFeatures(values[0], values[1 : 1 + STRONG_VIEWS], values[1 + STRONG_VIEWS :])


def _pixels(views: Tensor, side: int) -> Tensor:
    """(views, images, 3 side side) of views (views, images, 3, size, size)."""
    small = interpolate(views.flatten(0, 1), (side, side), mode="area")
    return small.flatten(1).view(*views.shape[:2], -1)


def measured_views(views: Views) -> list[Augmentation]:
    """The training views that are measured: five, taken in turn from the global crops.

    So that runs with one positive are measured with the same number of positives as others.
    """
    return (MEASURED_VIEWS * list(views.runs[0]))[:MEASURED_VIEWS]


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Evaluation mode while the block runs; afterwards every module returns to its previous mode."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
