"""The first batch of a run, without training: what the encoder will see."""

from typing import NamedTuple

from PIL import Image
from torch import Tensor

from cacr.config import ResolvedSettings
from cacr.data import Source
from cacr.reading.memory import require_memory
from cacr.training.building.build import make_loader, make_views_of
from cacr.training.loop.inputs import make_views


class FirstBatch(NamedTuple):
    """Some images of a batch, and their views.

    Attributes:
        images: the n images themselves.
        views: for each group of views, (views, n, 3, size, size), normalised.
    """

    images: list[Image.Image]
    views: list[Tensor]


def first_batch(settings: ResolvedSettings, source: Source, *, images: int, world_size: int) -> FirstBatch:
    """The first images of the first batch, as the first process of a run sees them.

    The whole batch is made, because the random colours are drawn for the batch.

    Args:
        settings: settings of the run.
        source: the images to train on.
        images: number of images wanted; fewer if the process has fewer.
        world_size: number of processes of the run.

    Raises:
        UserError: the batch does not fit into memory.
    """
    views = make_views_of(settings)
    share = -(-settings.batch_size // world_size)
    require_memory(
        4 * share * sum(views.channels * view.size**2 for view in views.augmentations),
        f"a batch of {share:,} images in {settings.views} views",
        "give the --set devices=... of the run, or a smaller batch_size",
    )
    # Decoded in this process: workers would start on later batches and would not change this one.
    alone = settings.model_copy(update={"workers": 0})
    loader = make_loader(alone, source, views, world_size=world_size)
    try:
        batch = next(loader.epoch(0))
    finally:
        loader.close()
    made = make_views(views, batch, settings.seed, 0, 0, 0)
    return FirstBatch(
        [source.read(int(number)) for number in batch.index[:images]], [run[:, :images] for run in made]
    )
