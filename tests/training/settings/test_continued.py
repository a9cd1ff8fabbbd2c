"""What a training that continues from trained weights does otherwise."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.encoders import build_encoder, fix_statistics, load_encoder, save_encoder
from cacr.errors import SettingsError, UserError
from cacr.evaluation.probing import observe
from cacr.feature_view import FeatureView
from cacr.training.building.build import feature_view_of
from cacr.training.building.networks import build_method
from cacr.training.cost.command_time import Command, price
from cacr.training.cost.passes import count_passes
from cacr.training.optimization.optimizers import build_optimizer
from cacr.training.pretrain import pretrain
from cacr.training.settings.continued import continued
from cacr.training.settings.described import Described
from cacr.training.settings.resolve import resolve, views_worth

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


def _resolved(init: Path, **given: Any) -> ResolvedSettings:
    asked = continued(PretrainSettings(data="photos", init=str(init), **given))
    return resolve(asked, DATA, world_size=1, device=torch.device("cpu"))


def _saved(folder: Path, name: str, size: int, **more: Any) -> Path:
    encoder = build_encoder(name, image_size=size, width=0.05 if name == "small_alexnet" else 1.0)
    save_encoder(folder, encoder, replace(encoder.info, **more))
    return folder


def test_features_are_computed_from_images_as_large_as_those_of_the_weights(tmp_path: Path) -> None:
    """Views may be smaller; where the network is another one for another size, they are not."""
    large = _saved(tmp_path / "large", "mobilenetv3_small_050", 128, resize=146, interpolation="bicubic")
    settings = _resolved(large)
    assert settings.image_size == 64
    assert settings.feature_view == FeatureView(size=128, resize=146, interpolation="bicubic")
    assert _resolved(large, image_size=128).feature_view is None
    assert _resolved(large, feature_view=None).feature_view is None
    assert feature_view_of(_resolved(large, feature_view=None)) == FeatureView(size=64, resize=70)
    given = _resolved(large, feature_view={"size": 96, "resize": 96}).feature_view
    assert given is not None and (given.size, given.interpolation) == (96, "bilinear")
    assert _resolved(_saved(tmp_path / "small", "mobilenetv3_small_050", 32)).feature_view is None
    alexnet = _saved(tmp_path / "alexnet", "small_alexnet", 32)
    assert (_resolved(alexnet).image_size, _resolved(alexnet).feature_view) == (32, None)
    resnet = _saved(tmp_path / "resnet", "resnet18", 224)
    assert _resolved(resnet).image_size == 128 and str(_resolved(resnet).feature_view) == "224 px"
    assert _resolved(resnet, image_size=64).feature_view is None  # its stem would be another one
    with pytest.raises(SettingsError, match="small_alexnet for views of 32 px does not take 64 px"):
        _resolved(alexnet, feature_view={"size": 64, "resize": 64})


def test_larger_images_for_features_cost_time_and_memory(tmp_path: Path) -> None:
    init = _saved(tmp_path / "large", "mobilenetv3_small_050", 256, resize=256)
    larger, equal = _resolved(init), _resolved(init, feature_view=None)
    worth = [views_worth(each.image_size, each.feature_view) for each in (equal, larger)]
    assert worth == [4.0, 11.5]  # of eight passes at half the price one has 16 times the pixels
    command = Command(1.0, 0.0, 0.001, 500, 256, 4, 1e6, 1.0, observed=True)
    costs = [price(larger, command._replace(encoding=each), 1.0).rest for each in (0.1, 0.2)]
    looked_at = (
        500 + 500 + 2.4 * 256
    )  # by the reader, by the report, and by measurements at the start and the end
    assert costs[1] - costs[0] == pytest.approx(0.1 * looked_at)
    many, few = (count_passes(each, 8) for each in (larger, equal))
    assert many.paging > few.paging and many.measuring > few.measuring and many.step == few.step


@pytest.mark.trains
def test_a_continued_run_has_the_images_of_its_weights(tmp_path: Path) -> None:
    """The encoder, its start, and the same after a stop."""
    init = _saved(tmp_path / "large", "mobilenetv3_small_050", 64, resize=72, interpolation="bicubic")
    given = {"data": "digits", "init": str(init), "image_size": 24, "batch_size": 16, "views": 2, "seed": 1}
    pretrain({**given, "max_steps": 2}, tmp_path / "run", observe=observe)
    pretrain({"max_steps": 3}, tmp_path / "run", resume=True, observe=observe)
    for folder in (tmp_path / "run", tmp_path / "run" / "start"):
        info = load_encoder(folder).info
        assert (info.image_size, info.resize, info.interpolation) == (64, 72, "bicubic")


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
