"""The rules behind ``auto``: one for each setting, with its reason.

*The sweep* is ``benchmarks/sweep.py``: one change at a time, at equal time, on held-out training images of three sets.
Its table is in ``docs/results.md``.
"""

from cacr.durations import HOUR
from cacr.views import preset_for

DEFAULT_SIZES = (32, 64, 128, 224)
"""Sides of views where no time is given: those of the paper's experiments."""

SIZES = (64, 48, 32)
"""Sides of views on a CPU with a time, in the order in which they are tried."""

ENOUGH_STEPS = 200
"""Steps for the sake of which views are made smaller; more are worth less than larger views. In the sweep 64 px with
200 steps, and 48 with 340, were better than 32 with 700 on two sets, and as good on the third, whose images have 32."""

SMALL_IMAGE = 64
"""Largest side of a view, in pixels, for which ``small_alexnet`` is the encoder: what the paper trains at 64 px."""

NARROW, FULL = 0.25, 1.0
"""Widths of ``small_alexnet``: on a processor, which makes several steps of a quarter in the time of one at full width,
and on a GPU or from :data:`LONG` on."""

LONG = 2 * HOUR
"""Seconds on a CPU from which the encoder has its full width."""

VIEWS = 5
"""Of an image: the paper's K = 4 positives."""

T_NEG = 4.0
"""CACR's t-: with a head that cannot shrink, near negatives may weigh much from the start."""

EPOCHS = 200
"""Where no time is given: as in the paper."""

WARMUP = 0.05
"""Share of a cosine run in which the learning rate rises."""

CONTINUED_RATE = 0.01
"""Of the head's learning rate, for an encoder that starts from trained weights, beside a head that is new."""

COLOUR_STEPS = ("hue", "saturation", "grey")
"""Settings of the views that change nothing in a grey image, and invent colours where a file is lossy."""

NO_PREDICTOR = "none"
"""The predictor of frameworks without one."""

_PRESET_OF = {"cifar10": "cifar", "cifar100": "cifar100", "stl10": "stl", "digits": "digits"}


def default_size(side: int) -> int:
    """The largest default size that is not above the shorter side of the images: views are never enlarged."""
    return max((size for size in DEFAULT_SIZES if size <= side), default=DEFAULT_SIZES[0])


def default_preset(data: str, size: int) -> str:
    """The preset made for a data set, or for ordinary photos of this size."""
    return _PRESET_OF.get(data, preset_for(size))


def default_encoder(size: int) -> str:
    """The paper's encoders: ``small_alexnet`` for small views, ResNets above."""
    return "small_alexnet" if size <= SMALL_IMAGE else "resnet18"


def default_batch(images: int, views: int) -> int:
    """The paper's 128 images, or 768 with two views of a large set: few steps an epoch teach little."""
    paper = 128 if views > 2 else min(768, max(128, images // 64))
    return max(2, min(paper, images))
