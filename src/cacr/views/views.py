"""Many views of a batch of images."""

from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from PIL import Image
from torch import Tensor

from cacr.views.augmentation import Augmentation
from cacr.views.cut import cut_out, shortest_side
from cacr.views.draws import Crops, draw_colours, draw_crops
from cacr.views.plan import ColourPlan
from cacr.views.resample import crop_resize
from cacr.views.workspace import Workspace

Run = tuple[Augmentation, ...]

# Pixels worked on at a time: what a core's own cache holds, or enough to keep a GPU busy.
_CHUNK_CPU, _CHUNK_GPU = 65_536, 16_777_216


class Views:
    """Makes normalised views of images, with parameters drawn for each view of each image.

    All randomness comes from the generator given with each call, which lives on the CPU whatever the device,
    so the same seed gives the same views everywhere.

    Args:
        augmentations: What each view goes through.
        mean: Of each channel, subtracted from values in [0, 1].
        std: Of each channel, divided by.
        dtype: Of the views.
        device: Where views are made; where the images are when left out.

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
    ) -> None:
        self.augmentations = tuple(augmentations)
        self.mean, self.std = tuple(mean), tuple(std)
        self.dtype = dtype
        self.device = None if device is None else torch.device(device)
        self.runs = [
            tuple(run) for _, run in groupby(self.augmentations, key=lambda a: (a.size, a.interpolation))
        ]

    @property
    def at_least(self) -> int:
        """Shorter side in pixels down to which a large image may be decoded at a fraction of its size."""
        return max(shortest_side(view) for view in self.augmentations)

    def crop(self, image: Image.Image, generator: torch.Generator) -> list[Tensor]:
        """The geometry of all views of one image, for loader workers; `colour` does the rest in batches.

        Args:
            image: RGB, of any size.
            generator: On the CPU.

        Returns:
            For each run of views of equal size, uint8 (views, 3, size, size).
        """
        return [cut_out(image, run, generator) for run in self.runs]

    def __call__(self, images: Tensor, generator: torch.Generator) -> list[Tensor]:
        """Views of a batch.

        Args:
            images: uint8 (images, 3, height, width).
            generator: On the CPU.

        Returns:
            For each run of views of equal size, (views, images, 3, size, size), each channels-last.
        """
        images = images.to(self.device or images.device, non_blocking=True)
        count, _, height, width = images.shape
        made = []
        for run in self.runs:
            crops = draw_crops(run, count, height, width, generator)

            def cut(items: Tensor, workspace: Workspace, run: Run = run, crops: Crops = crops) -> Tensor:
                chosen = images.index_select(0, (items % count).to(images.device))
                return crop_resize(chosen, crops.take(items), run[0].size, run[0].interpolation, workspace)

            made.append(self._make(run, count, cut, images.device, generator))
        return made

    def colour(self, crops: Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
        """The rest of the way for views that `crop` has cut out.

        Args:
            crops: For each run of views of equal size, uint8 (views, images, 3, size, size).
            generator: On the CPU.

        Returns:
            As calling the object does.
        """
        made = []
        for run, uncoloured in zip(self.runs, crops, strict=True):
            uncoloured = uncoloured.to(self.device or uncoloured.device, non_blocking=True)
            _, count, _, size, _ = uncoloured.shape
            flat = uncoloured.flatten(0, 1)

            def cut(items: Tensor, workspace: Workspace, flat: Tensor = flat, size: int = size) -> Tensor:
                chosen = flat.index_select(0, items.to(flat.device)).transpose(0, 1)
                return workspace("planes", 3, len(items), size, size).copy_(chosen).div_(255)

            made.append(self._make(run, count, cut, uncoloured.device, generator))
        return made

    def _make(
        self,
        run: Run,
        images: int,
        cut: Callable[[Tensor, Workspace], Tensor],
        device: torch.device,
        generator: torch.Generator,
    ) -> Tensor:
        """Colours and normalises, chunk by chunk, the planes (3, items, size, size) that ``cut`` makes."""
        size, total = run[0].size, len(run) * images
        views = torch.empty(len(run), images, size, size, 3, dtype=self.dtype, device=device)
        places = views.flatten(0, 1)
        plan = ColourPlan(draw_colours(run, images, generator), device)
        workspace = Workspace(device)
        chunk = max(1, (_CHUNK_CPU if device.type == "cpu" else _CHUNK_GPU) // size**2)
        for first in range(0, total, chunk):
            items = plan.order(first, min(first + chunk, total))
            index = torch.tensor(items)
            planes = cut(index, workspace)
            plan.apply(planes, items, workspace)
            for plane, mean, std in zip(planes, self.mean, self.std, strict=True):
                plane.mul_(1 / std).sub_(mean / std)
            if len(items) > 1:
                planes = planes.index_select(1, index.argsort().to(device))
            places[first : first + len(items)] = planes.to(self.dtype).permute(1, 2, 3, 0)
        return views.permute(0, 1, 4, 2, 3)
