"""From drawn colours to steps on chunks of planes."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cacr.views.blur import blur, half_kernels
from cacr.views.colour import ADJUST, adjust_hue, blend, solarise, to_grey
from cacr.views.draws import CONTRAST, HUE, SATURATION, Colours
from cacr.views.workspace import Workspace

_NO_HUE, _NO_JITTER = 4, 5


class ColourPlan:
    """What happens to the colours of all items, worked out once, carried out chunk by chunk.

    Colour jitter has its four parts in an order of its own for each item. Three of them are one operation
    with different coefficients (`blend`); only the hue is another. A chunk is therefore sorted by how many
    blends come before the hue, and every step works on a slice: no loop over images, no gathering.

    Args:
        colours: For all items, on the CPU.
        device: Of the planes.
    """

    def __init__(self, colours: Colours, device: torch.device) -> None:
        place = (colours.order == HUE).int().argmax(dim=1)
        place = torch.where(colours.factor[:, HUE] == 0, _NO_HUE, place)
        place = torch.where(colours.jittered, place, _NO_JITTER)
        steps = colours.order[colours.order != HUE].view(-1, 3)
        own = colours.factor.gather(1, steps)
        grey, mean = (1 - own) * (steps == SATURATION), (1 - own) * (steps == CONTRAST)
        numbers = torch.cat([own, grey, mean, colours.factor[:, HUE:]], dim=1).T
        self._numbers = numbers.float().contiguous().to(device, non_blocking=True)
        self._place: list[int] = place.tolist()
        self._steps: list[list[int]] = steps.tolist()
        self._grey: list[bool] = colours.grey.tolist()
        self._blurred: list[bool] = (colours.sigma > 0).tolist()
        self._solarised: list[bool] = (colours.threshold < math.inf).tolist()
        self._colours = colours

    def order(self, first: int, last: int) -> list[int]:
        """The items from ``first`` to before ``last`` in the order in which `apply` wants their planes."""
        return sorted(range(first, last), key=lambda item: (self._place[item], self._steps[item]))

    def apply(self, planes: Tensor, items: Sequence[int], workspace: Workspace) -> None:
        """Colour jitter, greyscale, blur and solarising, in place.

        Args:
            planes: (3, items, size, size) in [0, 1].
            items: Which items they are, as `order` gives them.
            workspace: For temporary planes.
        """
        flat = planes.flatten(2)
        scratch = workspace("scratch", 4, *flat.shape[1:])
        self._jitter(flat, items, scratch)

        def grey_some(chosen: Tensor, _: Tensor) -> None:
            to_grey(chosen, scratch[:, : chosen.shape[1]])

        def blur_some(chosen: Tensor, numbers: Tensor) -> None:
            half = half_kernels(self._colours.sigma[numbers], self._colours.radius[numbers])
            chosen.copy_(blur(chosen, half.to(chosen.device)))

        def solarise_some(chosen: Tensor, numbers: Tensor) -> None:
            solarise(chosen, self._colours.threshold[numbers, None].float().to(chosen.device))

        _on_some(flat, items, self._grey, grey_some)
        _on_some(planes, items, self._blurred, blur_some)
        _on_some(flat, items, self._solarised, solarise_some)

    def _jitter(self, planes: Tensor, items: Sequence[int], scratch: Tensor) -> None:
        places = [self._place[item] for item in items]
        # where the items begin whose hue comes after 0, 1, 2, 3 blends, never, and those without jitter
        starts = [bisect_left(places, place) for place in range(_NO_JITTER + 1)]
        jittered = starts[_NO_JITTER]
        if not jittered:
            return
        numbers = self._numbers[:, torch.tensor(items[:jittered]).to(planes.device), None]
        own, grey, mean, turns = numbers[0:3], numbers[3:6], numbers[6:9], numbers[9]
        for step in range(4):
            part = slice(starts[step], starts[step + 1])
            if part.start < part.stop:
                adjust_hue(planes[:, part], turns[part], scratch[:, part])
            if step == 3:
                break
            kinds = {self._steps[item][step] for item in items[:jittered]}
            chosen, memory = planes[:, :jittered], scratch[:, :jittered]
            if len(kinds) == 1:
                ADJUST[kinds.pop()](chosen, own[step], memory)
            else:
                blend(chosen, own[step], grey[step], mean[step], memory)


def _on_some(
    planes: Tensor, items: Sequence[int], flags: Sequence[bool], change: Callable[[Tensor, Tensor], None]
) -> None:
    """Change those planes, in place, whose item is flagged; ``change`` gets them and their items' numbers."""
    chosen = [place for place, item in enumerate(items) if flags[item]]
    if not chosen:
        return
    numbers = torch.tensor([items[place] for place in chosen])
    if len(chosen) == len(items):
        change(planes, numbers)
        return
    index = torch.tensor(chosen).to(planes.device)
    part = planes.index_select(1, index)
    change(part, numbers)
    planes.index_copy_(1, index, part)
