"""Make many views of a batch of images."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

import torch
from PIL import Image
from torch import Tensor

from cacr.views.augmentation import Augmentation
from cacr.views.cut import cut_out, shortest_side
from cacr.views.draws import draw_colours, draw_crops
from cacr.views.plan import ColourPlan
from cacr.views.resample import Resampler
from cacr.views.workspace import Workspace

# Pixels per chunk, per thread on a CPU: few enough to stay in a cache, many enough that the overhead of calls is
# small.
_CHUNK_CPU, _CHUNK_GPU = 163_840, 16_777_216
# Larger views, in pixels, are written to their place one by one; smaller ones are sorted together at the end.
_LARGE = 8_192


class Views:
    """Makes normalised views of images, with random parameters for each view of each image.

    All random numbers come from the generator of each call, which is always on the CPU: so the same seed gives the
    same views on every device.

    Args:
        augmentations: Augmentation of each view.
        mean: Mean per channel, subtracted from values in [0, 1].
        std: Standard deviation per channel, divided by.
        dtype: Data type of the views.
        device: Device on which views are made; default: that of the images.
        global_views: Number of views (the first ones) that are global crops; default: all. The others are local crops,
            and never in one group with global ones, even if they have the same size.

    Attributes:
        runs: The augmentations of each group: neighbouring views of equal size and interpolation that are all global
            or all local.

    Example:
        >>> from cacr.views import PRESETS
        >>> preset = PRESETS["cifar"]
        >>> views = Views(preset.for_views(5), preset.mean, preset.std)
        >>> images = torch.zeros(8, 3, 32, 32, dtype=torch.uint8)
        >>> [v.shape for v in views(images, torch.Generator().manual_seed(0))]
        [torch.Size([5, 8, 3, 32, 32])]
    """

    def __init__(
        self,
        augmentations: Sequence[Augmentation],
        mean: Sequence[float],
        std: Sequence[float],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        global_views: int | None = None,
    ) -> None:
        self.augmentations = tuple(augmentations)
        self.mean, self.std = tuple(mean), tuple(std)
        self.dtype = dtype
        self.device = None if device is None else torch.device(device)
        self.runs = _groups(
            self.augmentations, len(self.augmentations) if global_views is None else global_views
        )

    @property
    def channels(self) -> int:
        """Number of channels of the images."""
        return len(self.mean)

    @property
    def at_least(self) -> int:
        """Shorter side in pixels that a large image must keep if it is decoded at a fraction of its size."""
        return max(shortest_side(view) for view in self.augmentations)

    def crop(self, image: Image.Image | Tensor, generator: torch.Generator) -> list[Tensor]:
        """The crops of all views of one image, for loader workers; calling the object does the rest in batches.

        Args:
            image: RGB, or float32 (channels, height, width) from 0 to 255, of any size.
            generator: On the CPU.

        Returns:
            For each group of views (see ``runs``), uint8 (views, 3, size, size).
        """
        return [cut_out(image, run, generator) for run in self.runs]

    def __call__(self, images: Tensor | Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
        """Views of a batch.

        Args:
            images: uint8 (images, 3, height, width); or the stacked results of `crop`: for each group of views, uint8
                (views, images, 3, size, size).
            generator: On the CPU.

        Returns:
            For each group of views (see ``runs``), (views, images, 3, size, size), each channels-last.
        """
        return (
            self._whole(images, generator) if isinstance(images, Tensor) else self._colour(images, generator)
        )

    def _whole(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """All steps, for whole images of one size."""
        if (
            images.dtype not in (torch.uint8, torch.float32)
            or images.ndim != 4
            or images.shape[1] != self.channels
        ):
            raise ValueError(
                f"images are {images.dtype} {tuple(images.shape)}; they must be uint8, or float32 from 0 to 255, "
                f"(images, {self.channels}, height, width)"
            )
        images = images.to(self.device or images.device, non_blocking=True)
        count, _, height, width = images.shape
        made = []
        for run in self.runs:
            crops = draw_crops(run, count, height, width, generator)
            plan = ColourPlan(draw_colours(run, count, generator), images.device)
            resample = Resampler(
                crops.take(plan.order), height, width, run[0].size, run[0].interpolation, images.device
            )
            made.append(self._make(run, plan, partial(_resampled, images, resample), images.device))
        return made

    def _colour(self, crops: Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
        """The steps after `crop`."""
        made = []
        for run, cut in zip(self.runs, crops, strict=True):
            cut = cut.to(self.device or cut.device, non_blocking=True)
            plan = ColourPlan(draw_colours(run, cut.shape[1], generator), cut.device)
            made.append(self._make(run, plan, partial(_scaled, cut.flatten(0, 1)), cut.device))
        return made

    def _make(
        self, run: Sequence[Augmentation], plan: ColourPlan, planes_of: "_Planes", device: torch.device
    ) -> Tensor:
        """Views (views, images, 3, size, size), channels-last, from the planes of each chunk of the plan."""
        size, items = run[0].size, len(plan.order)
        order = plan.order.to(device, non_blocking=True)
        made = torch.empty(items, size, size, self.channels, dtype=self.dtype, device=device)
        workspace = Workspace(device)
        shifts = [
            torch.full((), -mean / std, device=device) for mean, std in zip(self.mean, self.std, strict=True)
        ]
        small = size**2 < _LARGE

        # Autograd's bookkeeping takes a tenth of the time; tensors made outside of the block are ordinary tensors.
        with torch.inference_mode():
            for chunk in _chunks(items, size, device):
                planes = planes_of(order[chunk], chunk.start, workspace)
                plan.apply(planes, chunk.start, workspace)
                if small:
                    self._normalise(planes, shifts, made[chunk])
                elif device.type == "cpu":
                    for number, item in enumerate(order[chunk].tolist()):
                        self._normalise(planes[:, number : number + 1], shifts, made[item : item + 1])
                else:
                    images = workspace("images", *planes.shape[1:], self.channels, dtype=self.dtype)
                    self._normalise(planes, shifts, images)
                    made.index_copy_(0, order[chunk], images)

        if small:
            made = made.index_select(0, order.argsort())
        return made.view(len(run), -1, size, size, self.channels).permute(0, 1, 4, 2, 3)

    def _normalise(self, planes: Tensor, shifts: Sequence[Tensor], images: Tensor) -> None:
        """Write planes (3, items, size, size), divided by std and shifted, into images (items, size, size, 3)."""
        for plane, image, shift, std in zip(
            planes.unbind(), images.unbind(-1), shifts, self.std, strict=True
        ):
            torch.add(shift, plane, alpha=1 / std, out=image)


def _groups(augmentations: Sequence[Augmentation], global_views: int) -> list[tuple[Augmentation, ...]]:
    """Neighbours that are made in one go: of one size and one interpolation, and all global or all local."""
    keyed = [((a.size, a.interpolation, i >= global_views), a) for i, a in enumerate(augmentations)]
    return [tuple(a for _, a in run) for _, run in groupby(keyed, key=itemgetter(0))]


_Planes = Callable[[Tensor, int, Workspace], Tensor]
"""Function of item numbers and their first position in the plan, that returns their planes (3, items, size, size)."""


def _resampled(
    images: Tensor, resample: Resampler, items: Tensor, first: int, workspace: Workspace
) -> Tensor:
    return resample(images.index_select(0, items % len(images)), first, workspace)


def _scaled(crops: Tensor, items: Tensor, first: int, workspace: Workspace) -> Tensor:
    chosen = crops.index_select(0, items).transpose(0, 1)
    planes = workspace("planes", *chosen.shape).copy_(chosen)  # faster than multiplying bytes by a number
    return planes.mul_(1 / 255)


def _chunks(items: int, size: int, device: torch.device) -> list[slice]:
    """Parts of about the same size."""
    pixels = _CHUNK_CPU * torch.get_num_threads() if device.type == "cpu" else _CHUNK_GPU
    chunk = math.ceil(items / math.ceil(items * size**2 / pixels))
    return [slice(first, min(first + chunk, items)) for first in range(0, items, chunk)]
