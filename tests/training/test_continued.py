"""What a training that continues from trained weights does otherwise."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cacr.config import PretrainSettings
from cacr.encoders import build_encoder, fix_statistics, save_encoder
from cacr.errors import SettingsError, UserError
from cacr.training.continued import continued
from cacr.training.networks import build_method
from cacr.training.optimizers import build_optimizer
from cacr.training.resolve import Described, resolve

DATA = Described("photos", 500, 64, in_memory=True)


def test_fixed_statistics_stay_and_weights_learn() -> None:
    """In training mode the layer gives what evaluation mode gives, and its copy does so too."""
    backbone = build_encoder("mobilenetv3_small_050", image_size=32).backbone
    images = torch.randn(4, 3, 32, 32)
    backbone.train()(images)  # statistics that are not those of the start
    expected = copy.deepcopy(backbone).eval()(images)
    fix_statistics(backbone)
    for network in (backbone, copy.deepcopy(backbone)):
        before = {name: tensor.clone() for name, tensor in network.named_buffers()}
        features = network.train()(images)
        torch.testing.assert_close(features, expected)
        features.square().sum().backward()
        torch.testing.assert_close(dict(network.named_buffers()), before, atol=0, rtol=0)
        assert network.bn1.weight.grad is not None and bool(network.bn1.weight.grad.abs().sum() > 0)


def test_the_weights_decide_encoder_and_normalisation(tmp_path: Path) -> None:
    encoder = build_encoder("mobilenetv3_small_050", image_size=48)
    save_encoder(tmp_path / "run", encoder, replace(encoder.info, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)))
    asked = continued(PretrainSettings(data="photos", init=str(tmp_path / "run")))
    settings = resolve(asked, DATA, world_size=1, device=torch.device("cpu"))
    assert settings.encoder == "mobilenetv3_small_050"
    assert settings.view_options["mean"] == (0.1, 0.2, 0.3) and settings.view_options["std"] == (
        0.4,
        0.5,
        0.6,
    )
    assert settings.statistics == "fixed" and settings.encoder_rate < 1
    own = continued(
        PretrainSettings(data="photos", init=str(tmp_path / "run"), view_options={"mean": (0.0, 0.0, 0.0)})
    )
    assert own.view_options["mean"] == (0.0, 0.0, 0.0)
    scratch = resolve(PretrainSettings(data="photos"), DATA, world_size=1, device=torch.device("cpu"))
    assert scratch.statistics == "batch" and scratch.encoder_rate == 1
    with pytest.raises(UserError, match="allow it with --download"):
        continued(PretrainSettings(data="photos", init="timm:resnet18"))


def test_the_rate_of_the_encoder_is_a_share_of_the_head() -> None:
    asked = PretrainSettings(
        data="photos", encoder="small_alexnet", width=0.05, image_size=32, encoder_rate=0.25
    )
    settings = resolve(asked, DATA, world_size=1, device=torch.device("cpu"))
    method, _ = build_method(settings)
    groups = {group["factor"]: group["params"] for group in build_optimizer(settings, method).param_groups}
    assert groups.keys() == {1.0, 0.25}
    assert {id(p) for p in groups[0.25]} == {id(p) for p in method.encoder.parameters()}
    assert len(groups[1.0]) + len(groups[0.25]) == len(list(method.parameters()))


def test_layers_near_the_image_learn_more_slowly() -> None:
    """The last block of the encoder has its full rate, each one before it half of that of the next."""
    asked = PretrainSettings(
        data="photos", encoder="small_alexnet", width=0.05, image_size=32, encoder_rate=0.1, layer_decay=0.5
    )
    settings = resolve(asked, DATA, world_size=1, device=torch.device("cpu"))
    method, _ = build_method(settings)
    factor = {
        id(p): group["factor"]
        for group in build_optimizer(settings, method).param_groups
        for p in group["params"]
    }
    backbone = method.encoder.backbone
    found = [{factor[id(p)] for p in block.parameters()} for block in backbone.children()]
    assert found == [{0.1 * 0.5**depth} for depth in reversed(range(7))]
    assert {factor[id(p)] for p in method.head.parameters()} == {1.0}


def test_frozen_stages_are_those_of_weights_that_were_loaded(tmp_path: Path) -> None:
    encoder = build_encoder("mobilenetv3_small_050", image_size=32)
    save_encoder(tmp_path / "run", encoder, encoder.info)
    asked = continued(PretrainSettings(data="photos", init=str(tmp_path / "run"), frozen_stages=2))
    method, _ = build_method(resolve(asked, DATA, world_size=1, device=torch.device("cpu")), asked.init)
    held = {n.split(".")[0] for n, p in method.encoder.backbone.named_parameters() if not p.requires_grad}
    assert held == {"conv_stem", "bn1", "blocks"}
    assert method.encoder.backbone.get_parameter("blocks.1.0.conv_pw.weight").requires_grad
    with pytest.raises(SettingsError, match="frozen_stages would keep random weights"):
        resolve(
            PretrainSettings(data="photos", frozen_stages=1), DATA, world_size=1, device=torch.device("cpu")
        )
