"""The feature maps of an encoder, against timm's own features_only and the encoder's features."""

import pytest
import timm
import torch

from cacr.encoders import build_encoder
from cacr.encoders.stages import Stages
from cacr.errors import UserError

PATCH_14 = "vit_small_patch14_dinov2"


@pytest.mark.parametrize(
    ("name", "first"),
    [("resnet18", 1), ("tf_efficientnet_lite0", 1), ("convnext_atto", 0), ("densenet121", 1)],
)
def test_maps_are_those_of_timm(name: str, first: int) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(name, image_size=96).eval()
    theirs = timm.create_model(name, features_only=True).eval()
    own = encoder.backbone.state_dict()
    # features_only joins names of nested modules by an underscore
    theirs.load_state_dict({key: own[_own_name(key, own)] for key in theirs.state_dict()})
    stages = Stages(encoder).eval()
    images = torch.randn(2, 3, 70, 90)
    with torch.inference_mode():
        expected = theirs(images)[first:]
        maps = stages(images)
    assert stages.strides == (4, 8, 16, 32) and stages.channels == tuple(m.shape[1] for m in expected)
    for found, other in zip(maps, expected, strict=True):
        torch.testing.assert_close(found, other)


def _own_name(key: str, own: dict[str, torch.Tensor]) -> str:
    return next(name for name in own if name == key or name.replace(".", "_") == key.replace(".", "_"))


def test_the_last_map_of_a_resnet_is_what_its_features_are_the_mean_of() -> None:
    encoder = build_encoder("resnet18", image_size=96).eval()
    images = torch.randn(2, 3, 96, 96)
    with torch.inference_mode():
        torch.testing.assert_close(Stages(encoder).eval()(images)[-1].mean(dim=(2, 3)), encoder(images))


def test_small_alexnet_and_small_stems_have_stages_too() -> None:
    stages = Stages(build_encoder("small_alexnet", image_size=32, width=0.05))
    assert stages.strides == (2, 4, 8)
    assert [m.shape[-1] for m in stages(torch.zeros(2, 3, 64, 64))] == [31, 15, 7]
    assert Stages(build_encoder("resnet18", image_size=32)).strides == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("frozen", "held"),
    [(0, ()), (1, ("conv1", "bn1")), (3, ("conv1", "bn1", "layer1", "layer2"))],
)
def test_the_first_stages_are_frozen_with_their_statistics(frozen: int, held: tuple[str, ...]) -> None:
    stages = Stages(build_encoder("resnet18", image_size=96), frozen=frozen).train()
    for name, parameter in stages.backbone.named_parameters():
        assert parameter.requires_grad != name.startswith(held) if held else parameter.requires_grad
    before = {name: value.clone() for name, value in stages.backbone.state_dict().items()}
    stages(torch.randn(2, 3, 64, 64))
    moved = {
        name for name, value in stages.backbone.state_dict().items() if not torch.equal(value, before[name])
    }
    assert all("running" in name or "tracked" in name for name in moved)
    for number in range(1, 5):
        assert any(name.startswith(f"layer{number}") for name in moved) == (f"layer{number}" not in held)


def test_everything_or_the_norms_alone_can_be_frozen() -> None:
    encoder = build_encoder("resnet18", image_size=96)
    whole = Stages(encoder, frozen="all").train()
    assert not any(p.requires_grad for p in whole.parameters())
    assert not any(module.training for module in whole.backbone.modules())
    norms = Stages(encoder, hold_statistics=True).train()
    trained = {name for name, p in norms.backbone.named_parameters() if p.requires_grad}
    assert "layer1.0.conv1.weight" in trained and "layer1.0.bn1.weight" not in trained
    assert not norms.backbone.bn1.training


@pytest.mark.parametrize(("name", "patch", "stride"), [("vit_tiny_patch16_224", 16, 16), (PATCH_14, 14, 16)])
def test_a_plain_transformer_has_one_map_its_tokens_and_takes_any_size(
    name: str, patch: int, stride: int
) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(name, image_size=4 * patch, options={"depth": 2}).eval()
    drawn = torch.random.get_rng_state()
    stages = Stages(encoder).eval()
    assert torch.equal(torch.random.get_rng_state(), drawn)  # the rest of a detector is drawn next
    assert stages.strides == (stride,) and stages.reduction == patch
    images = torch.randn(2, 3, 4 * patch, 4 * patch)
    with torch.inference_mode():
        (tokens,) = stages(images)
        expected = encoder.backbone.forward_features(images)[:, -16:]  # type: ignore[operator]
        torch.testing.assert_close(tokens.flatten(2).transpose(1, 2), expected)
        (other,) = stages(torch.randn(1, 3, 96, 160))
    assert other.shape[2:] == (-(-96 // patch), -(-160 // patch))


def test_swin_has_maps_of_four_sizes() -> None:
    options = {"embed_dim": 24, "window_size": 4}
    stages = Stages(build_encoder("swin_tiny_patch4_window7_224", image_size=64, options=options)).eval()
    assert stages.strides == (4, 8, 16, 32)
    with torch.inference_mode():
        assert [m.shape[-1] for m in stages(torch.zeros(1, 3, 96, 160))] == [40, 20, 10, 5]


def test_a_frozen_stage_of_a_transformer_holds_the_positions_too() -> None:
    stages = Stages(build_encoder("vit_tiny_patch16_224", image_size=32, options={"depth": 2}), frozen=1)
    trained = {name for name, p in stages.backbone.named_parameters() if p.requires_grad}
    assert trained and all(name.startswith(("blocks.1", "norm")) for name in trained)


def test_encoders_that_cannot_have_maps_are_refused() -> None:
    with pytest.raises(UserError, match=r"images of only one size, .* Swin work"):
        Stages(build_encoder("xcit_nano_12_p16_224", image_size=32))
    with pytest.raises(UserError, match=r"not known in timm.* Swin work"):
        encoder = build_encoder("resnet18", image_size=32)
        del encoder.backbone.feature_info
        Stages(encoder)
    with pytest.raises(UserError, match="takes 1 channels, but detectors need RGB"):
        Stages(build_encoder("resnet18", image_size=32, channels=1))
    with pytest.raises(UserError, match="resnet18 has only 5 stages"):
        Stages(build_encoder("resnet18", image_size=96), frozen=6)
