"""Layers of a backbone: how fast each learns, and which do not."""

import pytest
import torch
from timm.optim import param_groups_layer_decay

from cacr.encoders import build_encoder
from cacr.encoders.layers import freeze_stages, layers_of, rates_of
from cacr.errors import UserError


@pytest.mark.parametrize("name", ["mobilenetv3_small_050", "resnet18", "vit_tiny_patch16_224"])
def test_rates_fall_from_layer_to_layer_as_timm_has_it(name: str) -> None:
    backbone = build_encoder(name, image_size=128 if name == "resnet18" else 32).backbone
    groups = param_groups_layer_decay(backbone, layer_decay=0.5)
    theirs = {id(p): group["lr_scale"] for group in groups for p in group["params"]}
    rates = rates_of(backbone, 0.5)
    assert {id(p): rates[n] for n, p in backbone.named_parameters()} == theirs
    assert max(rates.values()) == 1


def test_blocks_of_the_small_network_are_its_layers() -> None:
    backbone = build_encoder("small_alexnet", image_size=32, width=0.05).backbone
    found = layers_of(backbone)
    assert found["conv1.0.weight"] == 0 and found["fc7.0.weight"] == 6


@pytest.mark.trains
def test_frozen_stages_keep_weights_and_statistics() -> None:
    backbone = build_encoder("resnet18", image_size=128).backbone
    freeze_stages(backbone, 2, "resnet18")
    before = {name: tensor.clone() for name, tensor in backbone.state_dict().items()}
    optimizer = torch.optim.SGD([p for p in backbone.parameters() if p.requires_grad], lr=0.1)
    backbone.train()(torch.randn(4, 3, 64, 64)).square().mean().backward()
    optimizer.step()
    same = {name for name, tensor in backbone.state_dict().items() if torch.equal(tensor, before[name])}
    assert same == {name for name in before if name.startswith(("conv1", "bn1", "layer1"))}
    with pytest.raises(UserError, match="resnet18 has 5 stages, including the stem: frozen_stages=5"):
        freeze_stages(backbone, 5, "resnet18")
