"""Plan the colour changes of all items, and apply them to chunks of planes."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cacr.views.blur import blur, half_kernels
from cacr.views.colour import ADJUST, adjust_hue, blend, luma, solarise
from cacr.views.draws import CONTRAST, HUE, SATURATION, Colours
from cacr.views.workspace import Workspace

# Groups of items in the order of a plan: blends but no hue step; the hue step after 3, 2, 1 and 0 blends; no
# jitter.
_NO_HUE, _HUE_LAST, _HUE_FIRST, _NO_JITTER = 0, 1, 4, 5
# Pixels of planes blurred together on a CPU: few enough to keep temporary values small.
_GROUP_CPU = 49_152
# From this number of pixels per item and thread on, items with different steps are changed one by one.
_LARGE_CPU = 16_384
_SLOTS = 6  # three blends before the hue and three after it; each item uses three of them


class ColourPlan:
    """The colour changes of all items, computed once, applied chunk by chunk.

    The four parts of colour jitter have a different order for each item. Three of them are the same operation with
    different coefficients (`blend`), so only the number of blends before the hue matters. The plan starts with the
    items that have the most of them; every step then works on a slice: one hue step for all, no loop over images,
    no gathering.

    Args:
        colours: Colour changes of all items, on the CPU.
        device: Device of the planes.

    Attributes:
        order: (items,) item numbers in the order in which `apply` needs their planes, on the CPU.
    """

    def __init__(self, colours: Colours, device: torch.device) -> None:
        steps = colours.order[colours.order != HUE].view(-1, 3)
        no_hue = colours.factor[:, HUE] == 0
        before = torch.where(no_hue, 3, (colours.order == HUE).int().argmax(dim=1))
        group = torch.where(no_hue, _NO_HUE, _HUE_FIRST - before)
        group = torch.where(colours.jittered, group, _NO_JITTER)
        # items with the same steps also become neighbours: a single step is faster than a blend
        self.order = (group * 27 + steps @ torch.tensor([9, 3, 1])).argsort(stable=True)

        self._colours = colours = colours.take(self.order)
        steps, before, group = steps[self.order], before[self.order], group[self.order]
        starts = torch.searchsorted(group, torch.arange(_NO_JITTER + 1)).tolist()
        self._with_hue = starts[_HUE_LAST], starts[_NO_JITTER]
        self._parts = [(0, starts[slot + 2]) for slot in range(3)]
        self._parts += [(starts[slot - 1], starts[_NO_JITTER]) for slot in range(3, _SLOTS)]

        own = colours.factor.gather(1, steps)
        rest = 1 - own
        slot = 3 - before[:, None] + torch.arange(3)
        in_slots = [
            values.new_zeros(len(values), _SLOTS).scatter_(1, slot, values).T
            for values in (own, rest * (steps == SATURATION), rest * (steps == CONTRAST), steps)
        ]
        self._kinds: list[list[int]] = in_slots.pop().tolist()
        self._factors: list[list[float]] = in_slots[0].tolist()
        numbers = torch.cat([*in_slots, colours.factor[:, HUE:].T, 1 - colours.grey[None].double()])
        columns = numbers.float().to(device, non_blocking=True).unsqueeze(2).unbind()
        self._own, self._share, self._mean = columns[0:6], columns[6:12], columns[12:18]
        self._turns, self._kept = columns[18:]
        self._grey: list[bool] = colours.grey.tolist()
        self._half, reach = half_kernels(colours.sigma, colours.radius)
        self._reach: list[int] = reach.tolist()
        self._blurred: list[bool] = (colours.sigma > 0).tolist()
        self._solarised: list[bool] = (colours.threshold < math.inf).tolist()

    def apply(self, planes: Tensor, first: int, workspace: Workspace) -> None:
        """Colour jitter, greyscale, blur and solarising, in place.

        Args:
            planes: (3, items, size, size) in [0, 1], of consecutive items of `order`.
            first: Their first position in `order`.
            workspace: For temporary planes.
        """
        flat = planes.flatten(2)
        last = first + flat.shape[1]
        by_kind = _worth_a_call(flat)
        for slot in range(_SLOTS):
            if slot == 3:
                self._adjust_hue(flat, first, last, workspace)
            for begin, end in self._runs(slot, first, last, by_kind):
                self._blend(flat[:, begin - first : end - first], begin, end, slot, workspace)
        # blur and solarising differ between items: a few at a time, large ones alone
        group = last - first
        if planes.device.type == "cpu" and any(self._blurred[first:last] + self._solarised[first:last]):
            group = max(1, _GROUP_CPU // flat.shape[2])
        for begin in range(first, last, group):
            self._after_jitter(planes[:, begin - first : begin - first + group], begin, workspace)

    def _after_jitter(self, planes: Tensor, first: int, workspace: Workspace) -> None:
        """Greyscale, blur and solarising."""
        flat = planes.flatten(2)
        last = first + flat.shape[1]
        grey = self._grey[first:last]
        channels = (
            slice(0, 1) if all(grey) else slice(None)
        )  # of three equal channels, only one has to be processed
        if any(grey):
            grey_planes = luma(flat, workspace("scratch", *flat.shape[1:]))
            if all(grey):
                flat[0] = grey_planes
            else:
                torch.lerp(grey_planes, flat, self._kept[first:last], out=flat)
        _on_some(planes[channels], self._blurred[first:last], first, self._blur)
        _on_some(flat[channels], self._solarised[first:last], first, self._solarise)
        if all(grey):
            planes[1:] = planes[:1]

    def _runs(self, slot: int, first: int, last: int, by_kind: bool) -> list[tuple[int, int]]:
        """Begin and end of the items in a slot; with ``by_kind``, of each group with the same step."""
        first, last = max(first, self._parts[slot][0]), min(last, self._parts[slot][1])
        if first >= last:
            return []
        kinds = self._kinds[slot]
        cuts = [i for i in range(first + 1, last) if kinds[i] != kinds[i - 1]] if by_kind else []
        return list(zip([first, *cuts], [*cuts, last], strict=True))

    def _blend(self, planes: Tensor, begin: int, end: int, slot: int, workspace: Workspace) -> None:
        scratch = workspace("scratch", *planes.shape[1:])
        kinds = set(self._kinds[slot][begin:end])
        own = self._own[slot][begin:end]
        if len(kinds) == 1:
            ADJUST[kinds.pop()](planes, own, scratch)
        else:
            blend(planes, own, self._share[slot][begin:end], self._mean[slot][begin:end], scratch)
        # up to 1 the result is a mean of values in [0, 1]
        if max(self._factors[slot][begin:end]) > 1:
            planes.clamp_(0, 1)

    def _adjust_hue(self, planes: Tensor, first: int, last: int, workspace: Workspace) -> None:
        begin, end = max(first, self._with_hue[0]), min(last, self._with_hue[1])
        if begin < end:
            part = planes[:, begin - first : end - first]
            adjust_hue(part, self._turns[begin:end], workspace("scratch", 3, *part.shape[1:]))

    def _blur(self, planes: Tensor, numbers: list[int]) -> None:
        reach = max(self._reach[number] for number in numbers)
        half = self._half[:, : reach + 1]
        # a slice is a view, and much faster than a list of numbers
        rows = half[numbers[0] : numbers[0] + 1] if len(numbers) == 1 else half[numbers]
        blur(planes, rows.to(planes.device))

    def _solarise(self, planes: Tensor, numbers: list[int]) -> None:
        solarise(planes, self._colours.threshold[numbers, None].float().to(planes.device))


def _on_some(
    planes: Tensor, flags: Sequence[bool], first: int, change: Callable[[Tensor, list[int]], None]
) -> None:
    """Change the flagged planes in place; ``change`` gets them and their numbers, from ``first``."""
    chosen = [number for number, flag in enumerate(flags) if flag]
    numbers = [first + number for number in chosen]
    if len(chosen) == len(flags):
        change(planes, numbers)
    elif chosen:
        index = torch.tensor(chosen).to(planes.device)
        part = planes.index_select(1, index)
        change(part, numbers)
        planes.index_copy_(1, index, part)


def _worth_a_call(planes: Tensor) -> bool:
    """Whether one item has much more work for every thread than the overhead of a call."""
    return planes.device.type == "cpu" and planes.shape[2] >= _LARGE_CPU * torch.get_num_threads()
