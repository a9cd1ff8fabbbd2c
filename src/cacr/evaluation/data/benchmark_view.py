"""Preprocess images as the ELEVATER benchmark does, instead of the encoder's own way."""

import copy
from dataclasses import replace

import torch
from PIL import Image

from cacr.data import Source
from cacr.data.source import Indices
from cacr.encoders import Encoder
from cacr.evaluation.data.sets import known_set
from cacr.evaluation.data.task import Task

SIDE = 224


class SqueezedSource(Source):
    """Images resized to squares by Pillow's bicubic filter, without cropping.

    Args:
        source: the images.
        side: side of the squares, in pixels.
    """

    def __init__(self, source: Source, side: int) -> None:
        super().__init__(
            source.name,
            labels=source.labels,
            class_names=source.class_names,
            captions=source.captions,
            notes=source.notes,
        )
        self._source, self._side = source, side

    def __len__(self) -> int:
        return len(self._source)

    def read(self, index: int, at_least: int | None = None) -> Image.Image:
        """A square; ``at_least`` is ignored, because the whole image is needed."""
        return self._source.read(index).resize((self._side, self._side), Image.Resampling.BICUBIC)

    def describe(self, index: int) -> str:
        """Where the image is."""
        return self._source.describe(index)

    def _select(self, indices: Indices) -> None:
        self._source = self._source.subset(indices)


def as_benchmark(task: Task) -> Task:
    """The same task with the preprocessing of the benchmark.

    The shorter side is resized to 224 pixels by a bicubic filter, and the centre is cropped without a margin. Images
    of a data set that the benchmark squeezes (KITTI) become squares without cropping. :func:`size_refusal` says which
    encoders take such images.
    """
    info = task.encoder.info
    encoder = copy.copy(task.encoder)  # its weights are shared
    encoder.info = replace(info, image_size=SIDE, resize=SIDE, interpolation="bicubic")
    data, known = task.data, known_set(task.data.train.name)
    if known is not None and known.squeezed:
        data = replace(data, train=SqueezedSource(data.train, SIDE), test=SqueezedSource(data.test, SIDE))
    return replace(task, encoder=encoder, data=data, readers={})


@torch.inference_mode()
def size_refusal(encoder: Encoder) -> str | None:
    """Why an encoder does not work with images of the benchmark's size, which is found by trying; None if it does."""
    info = encoder.info
    if info.image_size == SIDE:
        return None
    weight = next(iter(encoder.parameters()), torch.empty(0))
    try:
        encoder.eval()(torch.zeros(1, info.channels, SIDE, SIDE, device=weight.device))
    except (RuntimeError, AssertionError):
        return (
            f"view=elevater needs images of {SIDE} pixels, but this {info.encoder} only takes {info.image_size}: "
            "leave out view=elevater"
        )
    return None
