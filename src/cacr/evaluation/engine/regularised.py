"""What keeps a large network from learning its training images by heart (DeiT's recipe), by timm.

Images are changed at random (RandAugment) and partly erased, two of them are mixed or cut into one another with their
labels, and residual paths are left out.
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
"""Images (n, 3, s, s) with labels (n,) -> mixed images with shares (n, classes) of the classes."""

SWITCH = 0.5
"""Probability with which a batch is cut into itself rather than mixed, where both are asked for."""


@dataclass(frozen=True)
class Regularisation:
    """How strong each means is; 0 or empty: not used.

    Attributes:
        mixup: alpha of the Beta distribution of the share of the other image.
        cutmix: alpha of the same for the area that is cut out of the other image.
        augment: RandAugment as timm writes it, such as ``rand-m9-mstd0.5-inc1``.
        erasing: probability with which a rectangle of an image becomes noise.
        drop_path: probability with which the last residual path is left out for an image; it grows linearly to there.
    """

    mixup: float = 0.0
    cutmix: float = 0.0
    augment: str = ""
    erasing: float = 0.0
    drop_path: float = 0.0


NONE = Regularisation()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed what timm draws from (Python's, NumPy's and torch's global generators), and put it all back afterwards."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  (timm knows no generators)
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
    """So many bits of every colour, and at least one: at its strongest timm asks for none, which Pillow refuses."""
    return ImageOps.posterize(image, min(8, max(1, bits)))


class PixelChange:
    """RandAugment of pixels; picklable, for processes that decode.

    Args:
        augment: see :class:`Regularisation`.
        mean: colour in [0, 1] of what turned and moved images leave empty.
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
        """One image, uint8 (3, height, width), changed as the seed says."""
        with seeded(seed):
            changed = self._change(Image.fromarray(pixels.permute(1, 2, 0).numpy()))
        return torch.from_numpy(np.array(changed)).permute(2, 0, 1)


def mixing(how: Regularisation, classes: int, label_smoothing: float, seed: int) -> Mix | None:
    """Mixes and erases batches in place of their labels alone; None where neither is asked for.

    Every batch draws from a seed of its own, made of ``seed`` and its number.
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
            images = images.contiguous().clone()  # it is changed in place
            if how.erasing:
                erase = RandomErasing(how.erasing, mode="pixel", device=str(images.device))  # type: ignore[no-untyped-call]
                images = erase(images)
            even = len(images) // 2 * 2  # timm mixes a batch with its mirror image
            if mixes:
                images, shares = mixup(images[:even], labels[:even])
            else:
                shares = smoothed(labels, classes, label_smoothing)
        return images.contiguous(memory_format=torch.channels_last), shares

    return mix


def smoothed(labels: Tensor, classes: int, label_smoothing: float) -> Tensor:
    """Shares (n, classes): 1 - s of the own class, and s spread over all."""
    shares = nn.functional.one_hot(labels, classes).float()
    return shares * (1 - label_smoothing) + label_smoothing / classes


_PATHS = ("drop_path", "drop_path1", "drop_path2")
"""What timm calls the places where residual paths may be left out: in ResNets and others, and in transformers."""


def residual_paths(network: nn.Module) -> list[nn.Module]:
    """The blocks with residual paths, in order."""
    return [module for module in network.modules() if any(hasattr(module, name) for name in _PATHS)]


def drop_paths(network: nn.Module, most: float) -> None:
    """Leave residual paths out, of each image anew, with probabilities that grow linearly from 0 to ``most``."""
    from timm.layers.drop import DropPath

    blocks = residual_paths(network)
    for number, block in enumerate(blocks):
        for name in _PATHS:
            if hasattr(block, name):
                setattr(block, name, DropPath(most * number / max(1, len(blocks) - 1)))
