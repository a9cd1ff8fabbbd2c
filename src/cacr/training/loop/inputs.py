"""Input of a framework for a batch."""

from torch import Tensor

from cacr.data import Batch
from cacr.frameworks import ImageText
from cacr.randomness import generator
from cacr.training.building.captions import read_captions
from cacr.training.building.job import Training
from cacr.views import Views


def model_input(job: Training, batch: Batch, seed: int, epoch: int, number: int, rank: int) -> list[Tensor]:
    """The input of the framework for a batch: views, or their stored features, and captions."""
    if job.features is None:
        found = make_views(job.views, batch, seed, epoch, number, rank)
    else:
        found = [job.features[:, batch.index].to(job.fabric.device)]
    if isinstance(job.method, ImageText):
        texts = read_captions(job.method, batch, seed, epoch)
        found.append(texts.to(job.fabric.device))
    return found


def make_views(views: Views, batch: Batch, seed: int, epoch: int, number: int, rank: int) -> list[Tensor]:
    """The views of batch ``number`` of an epoch, in the process with this rank."""
    return views(batch.images, generator("views", seed, epoch, number, rank))
