"""Embeddings of the held-out images: the same views at every measurement, by a model at rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from cacr.data import ArraySource, Loader, Source
from cacr.data.order import share
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
        centre = Augmentation(info.image_size, scale=None, resize=info.resize or info.image_size, flip=0.0)
        self.views = Views(
            [centre, *measured_views(job.views)], job.views.mean, job.views.std, device=job.fabric.device
        )
        if not isinstance(source, ArraySource):
            each = sum(3 * view.size**2 for view in self.views.augmentations)
            source = source.subset(np.arange(min(len(source), max(2, MOST_BYTES // each))))
        fabric = job.fabric
        # Whole chunks are shared out, so that draws do not depend on the number of processes.
        chunks = -(-len(source) // CHUNK)
        self._shared = chunks >= fabric.world_size  # otherwise everybody looks at all of them
        rank, processes = (fabric.global_rank, fabric.world_size) if self._shared else (0, 1)
        mine = share(chunks, rank, processes)
        self._first = mine.start * CHUNK
        self._source = source.subset(np.arange(self._first, min(mine.stop * CHUNK, len(source))))
        self._crops: list[Tensor] = []
        self._labels: Tensor | None = None
        if isinstance(source, ArraySource):
            labels = self._source.labels
            self._labels = None if labels is None else torch.from_numpy(labels)
        else:
            self._decode()

    def _decode(self) -> None:
        """Keep the crops of the images that can be read."""
        settings = self._job.settings
        assert isinstance(settings.workers, int)
        loader = Loader(
            self._source,
            batch_size=CHUNK,
            seed=settings.seed,
            workers=settings.workers,
            crop=self.views.crop,
            shuffle=False,
            at_least=self.views.at_least,
            max_unreadable=1.0,
        )
        batches = list(loader.epoch(0))
        loader.close()
        self._crops = [
            torch.cat([batch.images[run] for batch in batches], dim=1) for run in range(len(self.views.runs))
        ]
        labels = [batch.labels for batch in batches if batch.labels is not None]
        self._labels = torch.cat(labels) if len(labels) == len(batches) else None

    def chunks(self) -> Iterator[list[Tensor]]:
        """Views of a few images of this process at a time: first that of evaluation, then random ones."""
        count = self._crops[0].shape[1] if self._crops else len(self._source)
        for begin in range(0, count, CHUNK):
            end = min(begin + CHUNK, count)
            draw = generator("diagnostics", self._job.settings.seed, self._first + begin)
            if isinstance(self._source, ArraySource):
                yield self.views(self._source.take(np.arange(begin, end)), draw)
            else:
                yield self.views.colour([crops[:, begin:end] for crops in self._crops], draw)

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
