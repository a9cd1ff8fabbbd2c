"""Check whether a detector fits into the free memory, before it starts."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.ops import box_iou

from cacr.data.annotated import AnnotatedSource
from cacr.distributed import alone, world_size
from cacr.errors import UserError
from cacr.evaluation.data.annotated import AnnotatedData
from cacr.evaluation.detection.recipes import DetectionRecipe
from cacr.features.machine import Machine
from cacr.features.room import SAFE
from cacr.reading.memory import HOLES, WORKER, free_memory, gigabytes

STATES = {"sgd": 1, "adamw": 2}
"""Numbers per weight that the optimiser stores."""

READY = 4
"""Batches that a decoding process works on or has ready."""

BOUND = 2
"""Factor on the outputs of all layers and blocks: more than a step needs at once."""

PROBE = 128
"""Side of the image on which the outputs of layers are measured."""

_DIVISIBLE = 32
"""torchvision pads images to multiples of this side."""


@dataclass(frozen=True)
class Load:
    """The largest input that one process has to hold.

    Attributes:
        images: Images per batch.
        height: Height of the largest batch, in pixels.
        width: Width of the largest batch.
        test_height: Height of the largest test image, as the detector sees it.
        test_width: Width of that image.
        objects: Largest number of objects in an image.
        proposals: Number of boxes per image that the head is trained on.
        masks: Whether there are masks.
        decoded: Bytes of the largest training image, with its masks, after decoding.
        pasted: Bytes of the masks found in the largest test image.
    """

    images: int
    height: int
    width: int
    test_height: int
    test_width: int
    objects: int
    proposals: int
    masks: bool
    decoded: int
    pasted: int


def load_of(detector: Any, recipe: DetectionRecipe, data: AnnotatedData, *, masks: bool) -> Load:
    """The load of one process for this data."""
    height, width = largest_batch(data.train, max(recipe.sizes), recipe.max_size)
    tested = largest_batch(data.test, recipe.test_size, recipe.max_size)
    # Three bytes per pixel and one per mask pixel; the largest image also as 32-bit numbers.
    decoded = max(each.height * each.width * (15 + masks * len(each)) for each in data.train.objects)
    # Per mask of a whole image: 32 bits per pixel, the same again in the stack of all masks, and its pixels.
    largest = max(each.height * each.width for each in data.test.objects)
    pasted = 9 * masks * detector.roi_heads.detections_per_img * largest
    most = max(len(each) for each in data.train.objects)
    images = -(-recipe.batch_size // world_size())
    return Load(images, height, width, *tested, most, recipe.proposals, masks, decoded, pasted)


def largest_batch(source: AnnotatedSource, shorter: int, longest: int) -> tuple[int, int]:
    """Height and width of a batch that can hold every image, resized and padded as torchvision does."""
    sides = []
    for each in source.objects:
        scale = min(shorter / min(each.height, each.width), longest / max(each.height, each.width))
        sides.append((scale * each.height, scale * each.width))
    height, width = (max(values) for values in zip(*sides, strict=True))
    return -(-int(height) // _DIVISIBLE) * _DIVISIBLE, -(-int(width) // _DIVISIBLE) * _DIVISIBLE


def require_room(
    detector: Any,
    encoder: str,
    recipe: DetectionRecipe,
    data: AnnotatedData,
    machine: Machine,
    *,
    masks: bool,
) -> None:
    """Refuse a detector whose largest step or test image does not fit into memory; on a CPU.

    Args:
        detector: The detector to train, with real tensors; it is not changed.
        encoder: Its name, for the message.
        recipe: How it is trained.
        data: What it is trained and tested on.
        machine: The number of decoding processes.
        masks: Whether it learns masks.

    Raises:
        UserError: suggests a batch size that fits.
    """
    if machine.device.type != "cpu":
        return
    load = load_of(detector, recipe, data, masks=masks)
    states: int = STATES[recipe.optimizer] * sum(p.nbytes for p in detector.parameters() if p.requires_grad)
    free = free_memory() / world_size()

    def room(images: int) -> float:
        decoding = machine.workers * (WORKER + READY * images * load.decoded)
        return free - states - decoding - images * load.decoded

    if HOLES * BOUND * outputs(detector, load) + load.pasted <= SAFE * room(load.images):
        return
    testing = HOLES * bytes_of_test(detector, load) + load.pasted
    one, all_of_them = (HOLES * bytes_of_step(detector, replace(load, images=n)) for n in (1, load.images))
    each = (all_of_them - one) / max(1, load.images - 1)
    if max(all_of_them, testing) <= room(load.images):
        return
    fitting = [n for n in range(1, load.images) if max(one + (n - 1) * each, testing) <= room(n)]
    advice = "use smaller images, such as --set sizes=[192,224,256] --set test_size=224 --set max_size=448"
    if fitting:
        advice = f"it would fit with --set batch_size={world_size() * fitting[-1]}"
    raise UserError(
        f"a detector on {encoder} needs about {gigabytes(max(all_of_them, testing) + states)} of memory for "
        f"{load.images} images of up to {load.width} x {load.height} pixels, but {gigabytes(free)} are free; "
        f"{advice}"
    )


@torch.no_grad()
def outputs(detector: Any, load: Load) -> float:
    """Bytes of the outputs of all layers for a batch: measured on one small image and one box, then scaled by area."""
    found = 0

    def add(_: nn.Module, __: object, made: object) -> None:
        nonlocal found
        found += made.nbytes if isinstance(made, Tensor) else 0

    training = detector.training
    detector.eval()
    hooks = [module.register_forward_hook(add) for module in detector.modules()]
    try:
        maps = detector.backbone(torch.zeros(1, 3, PROBE, PROBE))
        detector.rpn.head(list(maps.values()))
        of_maps, found = found, 0
        _heads(detector, 1, 1 if load.masks else 0)
    finally:
        for hook in hooks:
            hook.remove()
        detector.train(training)
    area = load.height * load.width / PROBE**2
    return load.images * (area * of_maps + load.proposals * found + 12 * load.height * load.width)


def bytes_of_step(detector: Any, load: Load) -> int:
    """Largest number of bytes in use during a step, with gradients, without the weights."""
    from cacr.training.cost.live import (
        live_peak,
        make_fake,
    )  # the estimate itself takes longer than a step

    copied = copy.deepcopy(detector).to("meta").train()
    mode = make_fake(copied)

    def step() -> None:
        scores = _looked(copied, load.images, load.height, load.width)
        places = sum(score.numel() for score in scores[0]) // load.images
        box_iou(
            torch.empty(load.objects, 4), torch.empty(places, 4)
        )  # each object with each anchor of an image
        boxes = load.images * load.proposals
        made = _heads(copied, boxes, -(-boxes // 4) if load.masks else 0)
        torch.autograd.backward(torch.stack([part.sum() for part in (*scores[0], *scores[1], *made)]).sum())

    with alone():
        return live_peak(copied, mode, step)


def bytes_of_test(detector: Any, load: Load) -> int:
    """Largest number of bytes in use while one image is tested."""
    from cacr.training.cost.live import live_peak, make_fake

    copied = copy.deepcopy(detector).to("meta").eval()
    mode = make_fake(copied)

    def look() -> None:
        with torch.no_grad():
            maps = _looked(copied, 1, load.test_height, load.test_width)
            _heads(copied, copied.rpn.post_nms_top_n(), copied.roi_heads.detections_per_img * load.masks)
            del maps

    with alone():
        return live_peak(copied, mode, look)


def _looked(detector: Any, images: int, height: int, width: int) -> tuple[list[Tensor], list[Tensor]]:
    """Scores and offsets of boxes at every position, for images without values."""
    maps = list(detector.backbone(torch.empty(images, 3, height, width)).values())
    found: tuple[list[Tensor], list[Tensor]] = detector.rpn.head(maps)
    return found


def _heads(detector: Any, boxes: int, masks: int) -> list[Tensor]:
    """The outputs of the heads for ``boxes`` boxes."""
    heads, channels = detector.roi_heads, detector.backbone.out_channels
    side = heads.box_roi_pool.output_size[0]
    contents = torch.empty(boxes, channels, side, side, requires_grad=True)
    made = list(heads.box_predictor(heads.box_head(contents)))
    if masks:
        side = heads.mask_roi_pool.output_size[0]
        inside = torch.empty(masks, channels, side, side, requires_grad=True)
        made.append(heads.mask_predictor(heads.mask_head(inside)))
    return made
