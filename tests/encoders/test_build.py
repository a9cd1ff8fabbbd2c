import pytest
import torch
from torch import nn

from cacr.encoders import ENCODERS, HEADS, build_encoder, build_head, build_predictor
from cacr.encoders.heads import default_hidden
from cacr.errors import UserError


def parameters(*modules: nn.Module) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())


@pytest.mark.parametrize(("size", "expected"), [(32, 27_221_088), (64, 58_678_368)])
def test_small_alexnet_has_the_parameters_of_the_paper(size: int, expected: int) -> None:
    with torch.device("meta"):  # counts need no memory
        backbone = ENCODERS["small_alexnet"](image_size=size)
        head = build_head("linear", 4096)
    assert parameters(backbone, head) == expected


def test_resnet50_has_the_parameters_of_the_small_image_experiments() -> None:
    encoder = build_encoder("resnet50", image_size=32)
    assert parameters(encoder) == 23_500_352
    assert parameters(build_head("mlp", encoder.feature_dim)) == 1_115_264


def test_small_alexnet_is_initialised_as_the_paper_says() -> None:
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=32, width=0.25)
    head = build_head("linear", encoder.feature_dim)
    weights = [m.weight for m in encoder.modules() if isinstance(m, nn.Conv2d | nn.Linear)] + [head.weight]
    assert len(weights) == 8
    for weight in weights:
        assert weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert abs(weight.mean().item()) < 0.002
    assert head.bias.count_nonzero() == 0
    assert all(m.bias is None for m in encoder.modules() if isinstance(m, nn.Conv2d | nn.Linear))


def test_small_alexnet_computes_seven_blocks_of_convolution_norm_and_relu() -> None:
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=32, width=0.05).eval()
    for layer in encoder.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            nn.init.normal_(layer.weight)
            nn.init.normal_(layer.bias)
    x = images = torch.randn(2, 3, 32, 32)
    state = list(encoder.backbone.state_dict().values())
    assert len(state) == 7 * 6
    for block in range(7):
        weight, gamma, beta, mean, var = state[6 * block : 6 * block + 5]
        if block == 5:
            x = x.reshape(2, -1)
        x = nn.functional.conv2d(x, weight, padding=1) if block < 5 else x @ weight.T
        shape = (1, -1, 1, 1) if block < 5 else (1, -1)
        x = (x - mean.view(shape)) / (var + 1e-5).sqrt().view(shape) * gamma.view(shape) + beta.view(shape)
        x = x.clamp(min=0)
        if block in (0, 1, 4):
            x = x.unfold(2, 3, 2).unfold(3, 3, 2).amax(dim=(-2, -1))
    torch.testing.assert_close(encoder(images), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "size", "width", "dim"),
    [
        ("small_alexnet", 28, 0.1, 410),
        ("small_alexnet", 15, 0.1, 410),
        ("small_alexnet", 64, 0.1, 410),
        ("resnet18", 32, 1.0, 512),
        ("resnet18", 96, 1.0, 512),
        ("mobilenetv3_small_050", 40, 1.0, 1024),
        ("vit_tiny_patch16_224", 32, 1.0, 192),
    ],
)
def test_every_kind_of_encoder_encodes(name: str, size: int, width: float, dim: int) -> None:
    encoder = build_encoder(name, image_size=size, width=width)
    assert encoder.training
    assert encoder.feature_dim == dim
    assert encoder(torch.randn(2, 3, size, size)).shape == (2, dim)
    assert encoder.info.image_size == size


@pytest.mark.parametrize(("size", "side"), [(32, 32), (64, 64), (65, 17), (96, 24)])
def test_resnets_keep_the_resolution_of_small_images(size: int, side: int) -> None:
    backbone = build_encoder("resnet18", image_size=size).backbone
    seen = []
    backbone.layer1.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    backbone.eval()(torch.zeros(1, 3, size, size))
    assert seen == [(1, 64, side, side)]


def test_a_size_too_small_is_refused() -> None:
    with pytest.raises(UserError, match="at least 15 pixels, not 14"):
        build_encoder("small_alexnet", image_size=14)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "inception_v3"])
def test_a_size_that_timm_cannot_take_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=rf"{name} cannot .* 8 pixels"):
        build_encoder(name, image_size=8)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="no encoder 'small_alexnt'; did you mean small_alexnet"):
        build_encoder("small_alexnt", image_size=32)
    with pytest.raises(UserError, match="mobilenetv3_small_100"):
        build_encoder("mobilenet_v3_small_100", image_size=32)
    with pytest.raises(UserError, match="known: resnet18, resnet50, small_alexnet and timm's names"):
        build_encoder("§§§§", image_size=32)


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050"])
def test_a_width_that_the_encoder_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} does not support width"):
        build_encoder(name, image_size=32, width=0.5)


def test_there_are_no_pretrained_weights_of_small_alexnet() -> None:
    with pytest.raises(UserError, match="no pretrained weights of small_alexnet"):
        build_encoder("small_alexnet", image_size=32, pretrained=True)


def test_every_registered_encoder_has_a_summary() -> None:
    assert all(ENCODERS.summaries().values())


THREE_LAYERS = ("moco_v3_vit", "simclr_v2", "simsiam", "barlow_twins")


@pytest.mark.parametrize("name", HEADS)
def test_every_head_takes_its_widths(name: str) -> None:
    head = build_head(name, 20, 16, hidden=12)
    assert head(torch.randn(4, 20)).shape == (4, 16)
    inner = [layer.out_features for layer in head.modules() if isinstance(layer, nn.Linear)][:-1]
    assert inner == [12] * {"linear": 0, **dict.fromkeys(THREE_LAYERS, 2)}.get(name, 1)


@pytest.mark.parametrize("name", ["moco_v3", "moco_v3_vit", "byol"])
def test_wide_heads_are_narrower_for_narrower_features_and_encoders(name: str) -> None:
    """2,048 features have the published 4,096; resnet18 has a quarter of these features."""
    assert [default_hidden(name, features) for features in (4096, 2048, 512)] == [4096, 4096, 1024]
    assert [default_hidden(name, 1024, width) for width in (1.0, 0.25)] == [2048, 1024]


def test_heads_of_moco_have_the_parameters_of_their_papers() -> None:
    with torch.device("meta"):
        assert parameters(build_head("moco_v2", 2048, 128)) == 2048 * 2048 + 2048 + 2048 * 128 + 128
        # batch norm has 2 x 4096 weights, the last one none
        assert parameters(build_head("moco_v3", 2048, 256)) == 2048 * 4096 + 8192 + 4096 * 256
        assert (
            parameters(build_head("moco_v3_vit", 768, 256, hidden=4096))
            == 768 * 4096 + 8192 + 4096 * 4096 + 8192 + 4096 * 256
        )
        predictors = [build_predictor("moco_v3", 256, 4096, transformer=vit) for vit in (False, True)]
    assert {parameters(p) for p in predictors} == {2 * 256 * 4096 + 8192}
    assert [isinstance(list(p.modules())[-1], nn.BatchNorm1d) for p in predictors] == [False, True]
