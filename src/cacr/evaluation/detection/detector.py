"""Faster R-CNN and Mask R-CNN on the feature maps of an encoder, by torchvision."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torchvision.models.detection import FasterRCNN, MaskRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.models.detection.mask_rcnn import MaskRCNNPredictor
from torchvision.ops import MultiScaleRoIAlign, roi_align

from cacr.encoders import Encoder, held_statistics, share_statistics
from cacr.encoders.stages import Frozen, Stages
from cacr.errors import UserError
from cacr.evaluation.detection.pyramids import Pyramid, SimplePyramid
from cacr.evaluation.detection.recipes import BatchNorm, DetectionRecipe

RATIOS = (0.5, 1.0, 2.0)
"""Aspect ratios (height / width) of the anchor boxes."""

ANCHOR = 8
"""Side of an anchor box divided by the stride of its map, in a pyramid."""

C4_ANCHORS = (32, 64, 128, 256, 512)
"""Sides of the anchor boxes in pixels, if there is a single map."""

MASK_CHANNELS = 256


@dataclass(frozen=True)
class Shape:
    """Properties of a detector in addition to its recipe.

    Attributes:
        classes: Number of classes, without the background.
        masks: Whether it also finds the pixels of objects.
        freeze: Number of first stages of the encoder that are not trained.
        batch_norm: Statistics of all processes in training, or those of pretraining, which then stay fixed.
    """

    classes: int
    masks: bool = False
    freeze: Frozen = 0
    batch_norm: BatchNorm = "sync"


def build_detector(encoder: Encoder, recipe: DetectionRecipe, shape: Shape) -> FasterRCNN:
    """A detector whose backbone has the weights of an encoder; other weights are drawn from torch's generator.

    Raises:
        UserError: the encoder does not have the feature maps of the model, or no batch norm to freeze.
    """
    norms = any(isinstance(module, _BatchNorm) for module in encoder.backbone.modules())
    if shape.batch_norm == "frozen" and not norms:
        raise UserError(f"{encoder.info.encoder} has no batch norm: leave out batch_norm=frozen")
    build = _pyramid_options if recipe.model == "fpn" else _c4_options
    options = build(encoder, recipe, shape)
    kind = MaskRCNN if shape.masks else FasterRCNN
    detector: FasterRCNN = kind(
        num_classes=None if "box_predictor" in options else shape.classes + 1,
        min_size=recipe.sizes,
        max_size=recipe.max_size,
        image_mean=list(encoder.info.mean),
        image_std=list(encoder.info.std),
        box_batch_size_per_image=recipe.proposals,
        **options,
    )
    if shape.masks:
        _unknown_masks(detector)
    if shape.batch_norm == "sync":
        share_statistics(detector)
    return detector


def _unknown_masks(detector: FasterRCNN) -> None:
    """Start with masks of probability 1/2 for each pixel, as detectron2 does: the loss is ln 2 for any features.

    torchvision's initial weights keep the scale of the maps, which may be large. With them a Mask R-CNN on
    EfficientNet-Lite0 started with a loss of 8 from scratch, and with ImageNet weights was not finite after 13 steps.
    """
    logits = detector.roi_heads.mask_predictor.mask_fcn_logits
    nn.init.normal_(logits.weight, std=0.001)
    nn.init.zeros_(logits.bias)


def _pyramid_options(encoder: Encoder, recipe: DetectionRecipe, shape: Shape) -> dict[str, Any]:
    body = Stages(encoder, frozen=shape.freeze, hold_statistics=shape.batch_norm == "frozen")
    kind: type[Pyramid] | type[SimplePyramid] = Pyramid if len(body.strides) > 1 else SimplePyramid
    pyramid = kind(body, recipe.channels)
    strides = pyramid.strides
    names = [str(i) for i in range(len(strides) - 1)]  # no boxes are cropped from the coarsest map
    anchors = AnchorGenerator(tuple((ANCHOR * stride,) for stride in strides), (RATIOS,) * len(strides))
    options = {
        "backbone": pyramid,
        "rpn_anchor_generator": anchors,
        "box_roi_pool": MultiScaleRoIAlign(names, output_size=7, sampling_ratio=2),
    }
    if shape.masks:
        options["mask_roi_pool"] = MultiScaleRoIAlign(names, output_size=14, sampling_ratio=2)
    return options


class C4(nn.Module):
    """The stages of a ResNet up to the third, whose map has a stride of 16."""

    def __init__(self, body: Stages) -> None:
        super().__init__()
        self.body = body
        (self.out_channels,) = body.channels

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """The single map."""
        return {"0": self.body(images)[0]}


class RoIMap(MultiScaleRoIAlign):  # type: ignore[misc]
    """The part of one map inside each box, 14 x 14; half a pixel is subtracted first (``aligned``)."""

    def __init__(self, stride: int) -> None:
        super().__init__(["0"], output_size=14, sampling_ratio=0)
        self.stride = stride

    def forward(self, maps: dict[str, Tensor], boxes: list[Tensor], shapes: list[tuple[int, int]]) -> Tensor:
        """(boxes, channels, 14, 14)."""
        found: Tensor = roi_align(maps["0"], boxes, self.output_size, 1 / self.stride, aligned=True)
        return found


class Res5(nn.Module):
    """The last stage of a ResNet applied to the contents of boxes, followed by a norm, as in MoCo's detectors."""

    def __init__(self, layer4: nn.Module, channels: int, *, held: bool) -> None:
        super().__init__()
        self.res5 = layer4
        self.norm = nn.BatchNorm2d(channels)
        self.held = held

    def forward(self, contents: Tensor) -> Tensor:
        """(boxes, channels, 7, 7)."""
        features: Tensor = self.norm(self.res5(contents))
        return features

    def train(self, mode: bool = True) -> "Res5":
        """Set the training mode; the stage itself stays in evaluation mode if it is not trained."""
        super().train(mode)
        if self.held:
            self.res5.eval()
        return self


class BoxHead(nn.Module):
    """One vector (boxes, channels) per box: the mean over positions."""

    def __init__(self, head: Res5) -> None:
        super().__init__()
        self.head = head

    def forward(self, contents: Tensor) -> Tensor:
        """Features of the contents of the boxes."""
        return torch.mean(self.head(contents), dim=(2, 3))


class MaskHead(nn.Module):
    """The same features with their positions, for boxes with an object; running statistics stay those of all boxes."""

    def __init__(self, head: Res5) -> None:
        super().__init__()
        self.head = head

    def forward(self, contents: Tensor) -> Tensor:
        """(boxes, channels, 7, 7)."""
        if not len(contents):
            return contents.new_zeros(0, self.head.norm.num_features, 7, 7)
        with held_statistics(self.head):
            features: Tensor = self.head(contents)
        return features


def _c4_options(encoder: Encoder, recipe: DetectionRecipe, shape: Shape) -> dict[str, Any]:
    layers = [f"layer{number}" for number in (1, 2, 3, 4)]
    if not all(hasattr(encoder.backbone, name) for name in layers):
        raise UserError(
            f"model=c4 needs a ResNet, and {encoder.info.encoder} is not one: use --set model=fpn"
        )
    hold = shape.batch_norm == "frozen"
    body = Stages(encoder, frozen=shape.freeze, hold_statistics=hold)
    channels, layer4 = body.channels[-1], body.backbone.layer4
    body.backbone.layer4 = nn.Identity()
    body.keep_only("layer3")
    frozen = shape.freeze == "all" or shape.freeze >= 5
    assert isinstance(layer4, nn.Module)
    head = Res5(layer4, channels, held=hold or frozen)
    pool = RoIMap(body.strides[0])
    options = {
        "backbone": C4(body),
        "rpn_anchor_generator": AnchorGenerator((C4_ANCHORS,), (RATIOS,)),
        "rpn_pre_nms_top_n_train": 12_000,
        "rpn_pre_nms_top_n_test": 6_000,
        "box_roi_pool": pool,
        "box_head": BoxHead(head),
        "box_predictor": FastRCNNPredictor(channels, shape.classes + 1),
    }
    if shape.masks:
        options |= {
            "mask_roi_pool": pool,
            "mask_head": MaskHead(head),
            "mask_predictor": MaskRCNNPredictor(channels, MASK_CHANNELS, shape.classes + 1),
        }
    return options
