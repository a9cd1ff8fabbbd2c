"""Detectors: torchvision's own where torchvision has one, with the encoder's weights in the backbone."""

import math
from dataclasses import replace

import pytest
import torch
from torchvision.models.detection import fasterrcnn_resnet50_fpn

from cacr.encoders import build_encoder
from cacr.encoders.stages import Stages
from cacr.errors import UserError
from cacr.evaluation.detection.detector import Shape, build_detector
from cacr.evaluation.detection.pyramids import SimplePyramid
from cacr.evaluation.detection.recipes import DETECTION_RECIPES
from tests.evaluation.detection.making import TINY, encoder_of, tiny_detector

TARGETS = [
    {"boxes": torch.tensor([[4.0, 5, 40, 44], [20, 10, 60, 50]]), "labels": torch.tensor([1, 2])},
    {"boxes": torch.tensor([[0.0, 0, 30, 64]]), "labels": torch.tensor([2])},
]


def _images() -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    return [torch.rand(3, 64, width, generator=draw, dtype=torch.float64) for width in (64, 80)]


def test_losses_and_detections_are_torchvisions_with_the_same_weights() -> None:
    encoder = encoder_of("resnet50", 224)
    recipe = replace(DETECTION_RECIPES["coco-fpn-1x"], sizes=(64,), max_size=128)
    ours = build_detector(encoder, recipe, Shape(2)).double()
    theirs = fasterrcnn_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=3,
        min_size=64,
        max_size=128,
        image_mean=list(encoder.info.mean),
        image_std=list(encoder.info.std),
    ).double()
    own = ours.state_dict()
    theirs.load_state_dict(
        {name: own[name.replace("backbone.body.", "backbone.body.backbone.")] for name in theirs.state_dict()}
    )
    targets = [t | {"boxes": t["boxes"].double()} for t in TARGETS]
    losses = []
    for detector in (ours, theirs):
        torch.manual_seed(0)  # which boxes the losses are taken of is drawn
        losses.append(detector.train()(_images(), targets))
    assert losses[0].keys() == losses[1].keys()
    for name in losses[0]:
        torch.testing.assert_close(losses[0][name], losses[1][name])
    theirs.load_state_dict(  # both have seen a batch: the same statistics again
        {name: own[name.replace("backbone.body.", "backbone.body.backbone.")] for name in theirs.state_dict()}
    )
    with torch.inference_mode():
        for one, other in zip(ours.eval()(_images()), theirs.eval()(_images()), strict=True):
            assert len(one["boxes"]) > 0
            for name in one:
                torch.testing.assert_close(one[name], other[name])


@pytest.mark.parametrize("model", ["fpn", "c4"])
def test_the_backbone_carries_the_weights_of_the_encoder(model: str) -> None:
    encoder = encoder_of("resnet18", 224)
    detector = build_detector(encoder, replace(TINY, model=model), Shape(2)).eval()  # type: ignore[arg-type]
    images = torch.randn(2, 3, 64, 96)
    with torch.inference_mode():
        expected = Stages(encoder).eval()(images)
        found = detector.backbone.body(images)
        if model == "c4":  # the last stage is in the head
            expected, last = [expected[2]], expected[3]
            torch.testing.assert_close(detector.roi_heads.box_head.head.res5(found[0]), last)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert not any(
        mine is theirs for mine in detector.parameters() for theirs in encoder.parameters()
    )  # a copy: the encoder is not trained


@pytest.mark.parametrize("masks", [False, True])
def test_c4_learns_and_finds(masks: bool) -> None:
    detector = tiny_detector(replace(TINY, model="c4"), name="resnet18", masks=masks)
    assert isinstance(detector.roi_heads.box_head.head.norm, torch.nn.BatchNorm2d)
    targets = [dict(t) for t in TARGETS]
    if masks:
        for target, width in zip(targets, (64, 80), strict=True):
            target["masks"] = torch.ones(len(target["boxes"]), 64, width, dtype=torch.uint8)
    images = [image.float() for image in _images()]
    before = detector.roi_heads.box_head.head.norm.num_batches_tracked.item()
    losses = detector.train()(images, targets)
    assert ("loss_mask" in losses) == masks
    torch.autograd.backward(torch.stack(list(losses.values())).sum())
    assert all(p.grad is not None for n, p in detector.named_parameters() if "res5" in n or "layer3" in n)
    assert detector.roi_heads.box_head.head.norm.num_batches_tracked.item() == before + 1  # not by the masks
    detector.rpn._post_nms_top_n["testing"] = 5
    with torch.inference_mode():
        (output, _) = detector.eval()(images)
    assert ("masks" in output) == masks and output["boxes"].shape[1] == 4


@pytest.mark.parametrize(("model", "name"), [("fpn", "small_alexnet"), ("c4", "resnet18")])
def test_masks_begin_unknown_whatever_the_scale_of_the_features(model: str, name: str) -> None:
    detector = tiny_detector(replace(TINY, model=model), name=name, masks=True).train()  # type: ignore[arg-type]
    targets = [
        t | {"masks": torch.ones(len(t["boxes"]), 64, width, dtype=torch.uint8)}
        for t, width in zip(TARGETS, (64, 80), strict=True)
    ]
    detector.roi_heads.mask_head.register_forward_pre_hook(lambda module, given: (30 * given[0],))
    losses = detector([image.float() for image in _images()], targets)
    assert losses["loss_mask"].item() == pytest.approx(math.log(2), abs=0.25)


def test_what_is_frozen_stays() -> None:
    probe = tiny_detector(freeze="all").train()
    assert not any(p.requires_grad for p in probe.backbone.body.parameters())
    assert all(p.requires_grad for p in probe.backbone.fpn.parameters())
    frozen = tiny_detector(batch_norm="frozen").train()
    assert not any(m.training for m in frozen.modules() if isinstance(m, torch.nn.BatchNorm2d))
    head = tiny_detector(replace(TINY, model="c4"), name="resnet18", freeze="all").train()
    box_head = head.roi_heads.box_head.head
    assert not any(p.requires_grad for p in box_head.res5.parameters()) and not box_head.res5.training
    assert box_head.norm.weight.requires_grad and box_head.norm.training


@pytest.mark.parametrize("masks", [False, True])
def test_a_plain_transformer_learns_and_finds_through_a_simple_pyramid(masks: bool) -> None:
    encoder = build_encoder("vit_tiny_patch16_224", image_size=32, options={"depth": 2})
    detector = build_detector(encoder, TINY, Shape(2, masks=masks))
    targets = [dict(t) for t in TARGETS]
    if masks:
        for target, width in zip(targets, (64, 80), strict=True):
            target["masks"] = torch.ones(len(target["boxes"]), 64, width, dtype=torch.uint8)
    images = [image.float() for image in _images()]
    losses = detector.train()(images, targets)
    torch.autograd.backward(torch.stack(list(losses.values())).sum())
    unused = {name for name, p in detector.backbone.named_parameters() if p.grad is None}
    assert not unused
    with torch.inference_mode():
        sizes = [tuple(m.shape[-2:]) for m in detector.backbone(torch.zeros(1, 3, 64, 96)).values()]
        (output, _) = detector.eval()(images)
    assert detector.backbone.strides == (4, 8, 16, 32, 64)
    assert sizes == [(16, 24), (8, 12), (4, 6), (2, 3), (1, 2)]
    assert ("masks" in output) == masks and output["boxes"].shape[1] == 4


class _Ramp(torch.nn.Module):
    """One map of patches of 14 pixels; its values are the x of their middles."""

    channels, strides, reduction = (4,), (16,), 14

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        rows, columns = (-(-side // 14) for side in images.shape[-2:])
        return [(14 * torch.arange(columns) + 7.0).expand(len(images), 4, rows, columns)]


def test_patches_of_14_pixels_are_put_where_those_of_16_are() -> None:
    pyramid = SimplePyramid(_Ramp(), 4)  # type: ignore[arg-type]
    pyramid.scales = torch.nn.ModuleList([torch.nn.Identity()])
    found = pyramid(torch.zeros(1, 3, 64, 160))["0"]
    assert found.shape == (1, 4, 4, 10)
    torch.testing.assert_close(
        found[0, 0, 0, :-1], 16 * torch.arange(9) + 8.0
    )  # the last one is at the border


def test_batch_norm_that_is_not_there_cannot_be_frozen() -> None:
    encoder = build_encoder("vit_tiny_patch16_224", image_size=32, options={"depth": 1})
    with pytest.raises(UserError, match="has no batch norm"):
        build_detector(encoder, TINY, Shape(2, batch_norm="frozen"))


def test_c4_is_for_resnets() -> None:
    with pytest.raises(UserError, match="needs a ResNet"):
        tiny_detector(replace(TINY, model="c4"))
