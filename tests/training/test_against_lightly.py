"""Methods that lightly has: the same weights and inputs give the same parameters after five optimiser steps."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cacr.encoders import Encoder, EncoderInfo, build_head, build_predictor
from cacr.frameworks import FRAMEWORKS, Framework
from cacr.losses import OBJECTIVES

pytestmark = pytest.mark.trains
losses = pytest.importorskip("lightly.loss")
heads = pytest.importorskip("lightly.models.modules.heads")

STEPS, LR, IMAGES, FEATURES, HIDDEN, DIM, PROTOTYPES = 5, 0.05, 12, 7, 16, 8, 5
Loss = Callable[[Tensor, Tensor], Tensor]
"""Of two views (images, 3, 2, 2)."""

Peer = tuple[nn.ModuleList, Loss, Callable[[int], None]]
"""Their modules, their loss, and what follows a step."""


def _backbone() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, FEATURES), nn.Tanh())


def _ours(
    framework: str, objective: str, head: str, predictor: str | None = None, **options: object
) -> Framework:
    torch.manual_seed(0)
    extra = dict(options)
    if predictor is not None:
        extra["predictor"] = build_predictor(predictor, DIM, HIDDEN, transformer=False)
    encoder = Encoder(_backbone(), EncoderInfo("flat", 2, FEATURES))
    made = FRAMEWORKS[framework](
        encoder, build_head(head, FEATURES, DIM, HIDDEN), OBJECTIVES[objective](), **extra
    )
    return made.double().train()


def _copied(theirs: nn.Module, ours: nn.Module) -> nn.Module:
    """Their module with our weights, which lie in the same order."""
    theirs = theirs.double().train()
    for target, source in zip(theirs.parameters(), ours.parameters(), strict=True):
        target.data.copy_(source.data)
    return theirs


def _byol(ours: Framework) -> Peer:
    parts = nn.ModuleList(
        [
            copy.deepcopy(ours.encoder),
            _copied(heads.BYOLProjectionHead(FEATURES, HIDDEN, DIM), ours.head),
            _copied(heads.BYOLPredictionHead(DIM, HIDDEN, DIM), ours.predictor),
        ]
    )
    held = copy.deepcopy(parts[:2]).requires_grad_(False)
    cosine = losses.NegativeCosineSimilarity()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        predictions = [parts[2](parts[1](parts[0](view))) for view in (x, y)]
        targets = [held[1](held[0](view)).detach() for view in (x, y)]
        return 2 + cosine(predictions[0], targets[1]) + cosine(predictions[1], targets[0])

    def after(step: int) -> None:
        for target, source in zip(held.parameters(), parts[:2].parameters(), strict=True):
            target.data.lerp_(source.data, 0.1)

    return parts, loss, after


def _simsiam(ours: Framework) -> Peer:
    predictor = heads.SimSiamPredictionHead(DIM, DIM // 4, DIM)
    parts = nn.ModuleList(
        [
            copy.deepcopy(ours.encoder),
            _copied(heads.SimSiamProjectionHead(FEATURES, HIDDEN, DIM), ours.head),
            _copied(predictor, ours.predictor),
        ]
    )
    cosine = losses.NegativeCosineSimilarity()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        z = [parts[1](parts[0](view)) for view in (x, y)]
        p = [parts[2](each) for each in z]
        return (cosine(p[0], z[1].detach()) + cosine(p[1], z[0].detach())) / 2

    return parts, loss, lambda step: None


def _swav(ours: Framework) -> Peer:
    prototypes = heads.SwaVPrototypes(DIM, PROTOTYPES).double()
    prototypes.heads[0].weight.data.copy_(ours.prototypes.data)
    prototypes.heads[0].bias = None  # SwAV's prototypes have none
    parts = nn.ModuleList(
        [
            copy.deepcopy(ours.encoder),
            _copied(heads.SwaVProjectionHead(FEATURES, HIDDEN, DIM), ours.head),
            prototypes,
        ]
    )
    swapped = losses.SwaVLoss(sinkhorn_epsilon=0.05, temperature=0.1)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        z = [nn.functional.normalize(parts[1](parts[0](view)), dim=1) for view in (x, y)]
        return swapped([prototypes(each) for each in z], [])

    return parts, loss, lambda step: prototypes.normalize()


def _of_views(theirs: nn.Module, head: nn.Module) -> Callable[[Framework], Peer]:
    def make(ours: Framework) -> Peer:
        parts = nn.ModuleList([copy.deepcopy(ours.encoder), _copied(head, ours.head)])
        return (
            parts,
            lambda x, y: theirs(*(parts[1](parts[0](view)) for view in (x, y))),
            lambda step: None,
        )

    return make


CASES = {
    "simclr": (
        lambda: _ours("in_batch", "info_nce", "simclr"),
        # SimCLR's own head has no batch norm at its end, lightly's module has
        _of_views(
            losses.NTXentLoss(0.19),
            heads.ProjectionHead(
                [(FEATURES, HIDDEN, nn.BatchNorm1d(HIDDEN), nn.ReLU()), (HIDDEN, DIM, None, None)]
            ),
        ),
    ),
    "byol": (lambda: _ours("momentum", "byol", "byol", "byol", ema=0.9, ema_schedule="constant"), _byol),
    "simsiam": (lambda: _ours("siamese", "simsiam", "simsiam", "simsiam"), _simsiam),
    "swav": (lambda: _ours("prototypes", "swav", "simclr", prototypes=PROTOTYPES, frozen_steps=0), _swav),
    "barlow_twins": (
        lambda: _ours("in_batch", "barlow_twins", "barlow_twins"),
        _of_views(losses.BarlowTwinsLoss(0.0051), heads.BarlowTwinsProjectionHead(FEATURES, HIDDEN, DIM)),
    ),
    "vicreg": (
        lambda: _ours("in_batch", "vicreg", "barlow_twins"),
        _of_views(losses.VICRegLoss(), heads.VICRegProjectionHead(FEATURES, HIDDEN, DIM, num_layers=3)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_parameters_after_five_steps_are_lightlys(name: str) -> None:
    make, peer = CASES[name]
    ours = make()
    parts, loss, after = peer(ours)
    lr = 0.001 if name in ("vicreg", "barlow_twins") else LR  # their losses are hundreds of times as large
    mine = torch.optim.SGD([p for p in ours.parameters() if p.requires_grad], lr=lr, momentum=0.9)
    other = torch.optim.SGD(parts.parameters(), lr=lr, momentum=0.9)
    before = [p.detach().clone() for p in parts.parameters()]
    draw = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        views = torch.randn(2, IMAGES, 3, 2, 2, generator=draw, dtype=torch.float64)
        ours.before_step(step, STEPS, epoch=0)
        for value, optimizer in ((ours([views])["loss"], mine), (loss(*views), other)):
            optimizer.zero_grad()
            value.backward()
        ours.hold_gradients()
        mine.step()
        other.step()
        ours.after_step(step + 1, STEPS)
        after(step)
    moved = [float((p - q).abs().max()) for p, q in zip(parts.parameters(), before, strict=True)]
    assert max(moved) > 1e-3
    found = [*ours.encoder.parameters(), *ours.head.parameters()]
    found += [*ours.predictor.parameters()] if ours.has_predictor else []
    found += [ours.prototypes] if name == "swav" else []
    for actual, expected in zip(found, parts.parameters(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-8)
