"""Embeddings of the held-out images: the same views at every measurement, by a model at rest."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cacr.data import Batch, Loader, Source
from cacr.data.errors import too_many_unreadable
from cacr.data.order import share
from cacr.features.encode import centre_view
from cacr.frameworks import gather
from cacr.randomness import generator
from cacr.training.job import Training
from cacr.training.resolve import MEASURED_VIEWS
from cacr.views import Augmentation, Views

CHUNK = 64
"""Images in a forward pass, and the unit in which they are shared out."""

MOST_BYTES = 2**29
"""Of crops that are kept in memory, over all processes; fewer images are measured where they would take more."""


class Embedded(NamedTuple):
    """What the model makes of the images of all processes.

    Attributes:
        z: (views, images, dim) embeddings of random views, before they are made unit vectors.
        features: (images, feature_dim) of the encoder, from one view as in evaluation.
        labels: (images,) or None.
    """

    z: Tensor
    features: Tensor
    labels: Tensor | None


class HeldOutImages:
    """The images to measure on; images of files are cropped once, and all draws are always the same.

    Args:
        job: whose model looks at them.
        source: all images to measure on; each process takes its share.
    """

    def __init__(self, job: Training, source: Source) -> None:
        self._job = job
        info = job.method.encoder.info
        self.views = Views(
            [centre_view(info), *measured_views(job.views)],
            job.views.mean,
            job.views.std,
            device=job.fabric.device,
        )
        if source.image_size is None:  # their crops are kept
            each = sum(3 * view.size**2 for view in self.views.augmentations)
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
        """Views of a few images of this process at a time: first that of evaluation, then random ones."""
        for number, batch in enumerate(self._batches()):
            draw = generator("diagnostics", self._job.settings.seed, self._first + number * CHUNK)
            yield self.views(batch.images, draw)

    @torch.no_grad()
    def embed(self) -> Embedded:
        """Pass the images through the model; every process must call this."""
        method = self._job.method
        features, embeddings = [], []
        with at_rest(method), self._job.fabric.autocast():
            for views in self.chunks():
                seen = torch.cat([method.encoder(x.flatten(0, 1)).unflatten(0, x.shape[:2]) for x in views])
                random = method.head(seen[1:].flatten(0, 1)).unflatten(0, (len(seen) - 1, -1))
                features.append(seen[0].float())
                embeddings.append(random.float())
        z, values = torch.cat(embeddings, dim=1), torch.cat(features)
        labels = None if self._labels is None else self._labels.to(z.device)
        if not self._shared:
            return Embedded(z, values, labels)
        if labels is not None:
            labels = gather(labels[None, :, None])[0, :, 0]
        return Embedded(gather(z), gather(values[None])[0], labels)


def measured_views(views: Views) -> list[Augmentation]:
    """The views of training that are measured: those of the largest size, at least two, at most five."""
    size = max(view.size for view in views.augmentations)
    large = [view for view in views.augmentations if view.size == size]
    return (large if len(large) > 1 else large * 2)[:MEASURED_VIEWS]


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
