"""Regularisation for fine-tuning large networks (DeiT's recipe), by timm.

Images are changed at random (RandAugment) and partly erased. Two images are mixed (mixup) or one is pasted into
another (cutmix), together with their labels. Residual paths are dropped (stochastic depth).
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

from cacr.randomness import mixed_seed

Mix = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Images (n, 3, s, s) with labels (n,) -> mixed images with class shares (n, classes)."""

SWITCH = 0.5
"""Probability of cutmix instead of mixup for a batch, if both are used."""


@dataclass(frozen=True)
class Regularisation:
    """Strength of each part; 0 or empty: not used.

    Attributes:
        mixup: alpha of the Beta distribution of the share of the other image.
        cutmix: alpha of the Beta distribution of the area of the other image.
        augment: RandAugment in timm's notation, such as ``rand-m9-mstd0.5-inc1``.
        erasing: probability that a rectangle of an image becomes noise.
        drop_path: probability that the last residual path is dropped for an image; it grows linearly from the first
            path.
    """

    mixup: float = 0.0
    cutmix: float = 0.0
    augment: str = ""
    erasing: float = 0.0
    drop_path: float = 0.0


NONE = Regularisation()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch, which timm uses, and restore them afterwards."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  (timm does not take generators)
    with torch.random.fork_rng(devices=[]):
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _posterized(image: Image.Image, bits: int, **unused: object) -> Image.Image:
    """Keep this number of bits per colour, at least one: timm may ask for 0 bits, which Pillow refuses."""
    return ImageOps.posterize(image, min(8, max(1, bits)))


class PixelChange:
    """RandAugment of pixels; can be pickled for decoding processes.

    Args:
        augment: see :class:`Regularisation`.
        mean: colour in [0, 1] that fills empty areas of rotated and moved images.
    """

    def __init__(self, augment: str, mean: tuple[float, ...]) -> None:
        from timm.data.auto_augment import posterize, rand_augment_transform

        fill = tuple(min(255, round(255 * value)) for value in mean)
        change = rand_augment_transform(augment, {"img_mean": fill})
        for each in change.ops:
            if each.aug_fn is posterize:
                each.aug_fn = _posterized
        self._change: Callable[[Image.Image], Image.Image] = change

    def __call__(self, pixels: Tensor, seed: int) -> Tensor:
        """Change one image, uint8 (3, height, width); the seed decides how."""
        with seeded(seed):
            changed = self._change(Image.fromarray(pixels.permute(1, 2, 0).numpy()))
        return torch.from_numpy(np.array(changed)).permute(2, 0, 1)


def mixing(how: Regularisation, classes: int, label_smoothing: float, seed: int) -> Mix | None:
    """A function that mixes and erases batches; None if neither is used.

    Every batch has its own seed, from ``seed`` and its number.
    """
    from timm.data.mixup import Mixup
    from timm.data.random_erasing import RandomErasing

    if not (how.mixup or how.cutmix or how.erasing):
        return None
    mixes = bool(how.mixup or how.cutmix)
    mixup = Mixup(  # type: ignore[no-untyped-call]
        how.mixup, how.cutmix, switch_prob=SWITCH, label_smoothing=label_smoothing, num_classes=classes
    )
    batch = 0

    def mix(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal batch
        batch += 1
        with seeded(mixed_seed("mix", seed, batch)):
            images = images.contiguous().clone()  # changed in place below
            if how.erasing:
                erase = RandomErasing(how.erasing, mode="pixel", device=str(images.device))  # type: ignore[no-untyped-call]
                images = erase(images)
            even = len(images) // 2 * 2  # timm mixes a batch with its reverse
            if mixes:
                images, shares = mixup(images[:even], labels[:even])
            else:
                shares = smoothed(labels, classes, label_smoothing)
        return images.contiguous(memory_format=torch.channels_last), shares

    return mix


def smoothed(labels: Tensor, classes: int, label_smoothing: float) -> Tensor:
    """Class shares (n, classes): 1 - s for the own class, plus s divided among all classes."""
    shares = nn.functional.one_hot(labels, classes).float()
    return shares * (1 - label_smoothing) + label_smoothing / classes


_PATHS = ("drop_path", "drop_path1", "drop_path2")
"""timm's attribute names of droppable residual paths: in ResNets and others, and in transformers."""


def residual_paths(network: nn.Module) -> list[nn.Module]:
    """The blocks with residual paths, in order."""
    return [module for module in network.modules() if any(hasattr(module, name) for name in _PATHS)]


def drop_paths(network: nn.Module, most: float) -> None:
    """Drop residual paths per image, with probabilities that grow linearly from 0 to ``most``."""
    from timm.layers.drop import DropPath

    blocks = residual_paths(network)
    for number, block in enumerate(blocks):
        for name in _PATHS:
            if hasattr(block, name):
                setattr(block, name, DropPath(most * number / max(1, len(blocks) - 1)))
