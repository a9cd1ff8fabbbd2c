"""The rules for ``auto``: one per setting, with its reason.

*The sweep* is ``benchmarks/sweep.py``: one change at a time, at equal time, on held-out training images of three data
sets. Its tables are in ``docs/results.md``. Rules of a part are with it: learning rates in ``optimizers.py`` and with
each method, heads and queues with each framework.
"""

from cacr.durations import HOUR
from cacr.views import preset_for

DEFAULT_SIZES = (32, 64, 128, 224)
"""Sides of views if no time is given: those of the paper's experiments."""

SIZES = (64, 48, 32)
"""Sides of views on a CPU if a time is given, in the order in which they are tried."""

ENOUGH_STEPS = 300
"""Views are made smaller until this number of steps fits; beyond it, larger views are worth more than more steps. In
the sweep 48 px with 340 steps is better than 32 px with 700 on the sets that it was chosen on, and as good on others.
64 px with 200 steps is not better than that on either. So it lies between 200 and 340; 300 itself was not run."""

SMALL_IMAGE = 64
"""Largest side of a view, in pixels, for which ``small_alexnet`` is the encoder: the paper trains it at 64 px."""

NARROW, FULL = 0.25, 1.0
"""Widths of ``small_alexnet``. Narrow on a CPU, where several narrow steps take the time of one full step; full on a
GPU, or from :data:`LONG` on."""

LONG = 2 * HOUR
"""Seconds on a CPU; from this time on the encoder has its full width. No run of the sweep is as long: not measured."""

VIEWS = 5
"""Views per image: the paper's K = 4 positives."""

T_NEG = 4.0
"""CACR's t-: with a head whose embeddings cannot shrink, near negatives may have large weights from the start."""

EPOCHS = 200
"""Epochs if no time is given: as in the paper."""

WARMUP = 0.05
"""Share of the run for the warm-up of a cosine schedule."""

CONTINUED_RATE = 0.001
"""Learning rate of an encoder with trained weights, relative to that of its new head. Ten times as much was better on
one of two sets and worse than no training on the other; a hundred times as much destroyed the features there."""

COLOUR_STEPS = ("hue", "saturation", "grey")
"""View options that have no effect on grey images, or add colours to lossy grey files."""

NO_PREDICTOR = "none"
"""Name of the predictor in frameworks without one."""

LEAST_BATCH = 32
"""Smallest batch that is chosen to save memory: with fewer images there are few negatives per query."""

_PRESET_OF = {"cifar10": "cifar", "cifar100": "cifar100", "stl10": "stl", "digits": "digits"}


def default_size(side: int) -> int:
    """The largest default size that is not above the shorter side of the images; at least 32."""
    return max((size for size in DEFAULT_SIZES if size <= side), default=DEFAULT_SIZES[0])


def default_preset(data: str, size: int) -> str:
    """The preset of the data set, or the preset for photos of this size."""
    return _PRESET_OF.get(data, preset_for(size))


def default_encoder(size: int) -> str:
    """The paper's encoders: ``small_alexnet`` for small views, a ResNet for larger ones."""
    return "small_alexnet" if size <= SMALL_IMAGE else "resnet18"


def default_weights(*, ours: bool, continued: bool) -> str:
    """Kaiming's scale for encoders of ours, unless they continue from trained weights.

    In the sweep it is as good as the paper's N(0, 0.02); in the runs before it, with raw features, it was better.
    """
    return "kaiming" if ours and not continued else "paper"


def default_first_layer(*, continued: bool, patches: str) -> str:
    """From whitened patches of the images, unless the first layer has trained or frozen weights already.

    In the sweep a random one costs 2.7 points of kNN on average, and the start is 2 to 7 points worse.
    """
    return "random" if continued or patches == "frozen" else "whitened"


def default_batch(images: int, views: int) -> int:
    """The paper's 128 images, or up to 768 with two views of a large data set, with at least 64 steps per epoch."""
    paper = 128 if views > 2 else min(768, max(128, images // 64))
    return max(2, min(paper, images))
