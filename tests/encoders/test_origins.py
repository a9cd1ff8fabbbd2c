"""Encoders from elsewhere: what other software saves gives the features that it gives there."""

import argparse
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.data import create_transform, resolve_model_data_config
from torch import Tensor, nn

from cacr.encoders import build_encoder, load_encoder, load_weights
from cacr.encoders.small_alexnet import SmallAlexNet
from cacr.errors import UserError

SMALLEST = "mobilenetv3_small_050"


@torch.no_grad()
def shaken(model: nn.Module) -> nn.Module:
    """A model whose every tensor differs from those of a new one, batch-norm statistics among them."""
    draw = torch.Generator().manual_seed(5)
    for tensor in model.state_dict().values():
        if tensor.is_floating_point():
            tensor.mul_(1 + 0.2 * torch.rand(tensor.shape, generator=draw))
    return model.eval()


def resnet(small: bool = False) -> nn.Module:
    model = timm.create_model("resnet18", num_classes=0)
    if small:
        model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return shaken(model)


def under(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


def other(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A second copy, such as a momentum encoder, that must not be taken for the first."""
    return {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in state.items()}


Layout = Callable[[dict[str, Tensor]], Any]
HEAD = torch.zeros(4, 4)

LAYOUTS: dict[str, Layout] = {
    "MoCo v1 or v2": lambda s: {
        "epoch": 200,
        "arch": "resnet18",
        "state_dict": under("module.encoder_q.", {**s, "fc.0.weight": HEAD})
        | under("module.encoder_k.", other(s))
        | {"module.queue": HEAD, "module.queue_ptr": torch.zeros(1)},
        "optimizer": {"state": {0: {"momentum_buffer": HEAD}}, "param_groups": []},
    },
    "MoCo v3": lambda s: {
        "args": argparse.Namespace(arch="resnet18", lr=0.1),
        "state_dict": under("module.momentum_encoder.", other(s))
        | under("module.base_encoder.", {**s, "fc.0.weight": HEAD})
        | {"module.predictor.0.weight": HEAD},
    },
    "SimSiam": lambda s: {
        "state_dict": under("module.encoder.", {**s, "fc.0.weight": HEAD})
        | {"module.predictor.0.weight": HEAD}
    },
    "SwAV": lambda s: under("module.", {**s, "projection_head.0.weight": HEAD, "prototypes.weight": HEAD}),
    "Barlow Twins": lambda s: {
        "epoch": 1,
        "model": under("module.backbone.", s)
        | {"module.projector.0.weight": HEAD, "module.bn.running_mean": HEAD},
    },
    "BYOL": lambda s: under("online_encoder.net.", s) | under("target_encoder.net.", other(s)),
    "SimCLR": lambda s: (
        {"convnet." + name: tensor for name, tensor in s.items()} | {"projection.0.weight": HEAD}
    ),
    "DINO": lambda s: {
        "student": under("module.backbone.", other(s)) | {"module.head.mlp.0.weight": HEAD},
        "teacher": under("backbone.", s) | {"head.mlp.0.weight": HEAD},
        "args": argparse.Namespace(out=Path("runs")),
        "epoch": np.float64(3),
    },
    "solo-learn": lambda s: {
        "state_dict": under("backbone.", s)
        | under("momentum_backbone.", other(s))
        | {"classifier.weight": HEAD, "projector.0.weight": HEAD},
        "hyper_parameters": {"name": "moco"},
    },
    "VISSL": lambda s: {
        "classy_state_dict": {
            "base_model": {
                "model": {"trunk": under("_feature_blocks.", s), "heads": {"0.clf.0.weight": HEAD}}
            }
        }
    },
    "plain": lambda s: {**s, "fc.weight": HEAD},
}


@pytest.mark.parametrize("software", LAYOUTS)
def test_a_checkpoint_is_recognised_by_its_names(software: str, tmp_path: Path) -> None:
    """Modules built by the published key table of each: the right copy, and all that is left over is named."""
    model = resnet()
    torch.save(LAYOUTS[software](model.state_dict()), tmp_path / "checkpoint.pth.tar")
    encoder = load_encoder(tmp_path / "checkpoint.pth.tar")
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(encoder(images), model(images))
    assert encoder.info.encoder == "resnet18" and encoder.info.image_size == 224
    loaded = encoder.loaded
    assert loaded is not None and loaded.missing == ()
    assert loaded.loaded == tuple(model.state_dict())
    assert software in loaded.origin and "ImageNet statistics" in loaded.origin
    assert not set(loaded.unexpected) & set(loaded.loaded)


def test_what_is_left_over_is_named(tmp_path: Path) -> None:
    state = resnet().state_dict() | {"fc.weight": HEAD, "fc.bias": HEAD}
    torch.save(state, tmp_path / "a.pth")
    loaded = load_encoder(tmp_path / "a.pth").loaded
    assert loaded is not None and loaded.unexpected == ("fc.weight", "fc.bias")
    assert (
        f"{len(state) - 2:,} tensors from" in loaded.text and "2 unused (fc.weight, fc.bias)" in loaded.text
    )


def test_the_authors_small_network_is_recognised(tmp_path: Path) -> None:
    """Their module numbers its blocks, the head being block 7."""
    ours = SmallAlexNet(image_size=32, width=0.05)
    shaken(ours)
    blocks = dict(enumerate(ours.children()))
    theirs = nn.Module()
    theirs.blocks = nn.ModuleList([*blocks.values(), nn.Sequential(nn.Linear(205, 128))])
    torch.save(nn.DataParallel(theirs).state_dict(), tmp_path / "encoder.pth")
    encoder = load_encoder(tmp_path / "encoder.pth")
    assert (encoder.info.encoder, encoder.info.image_size) == ("small_alexnet", 32)
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(encoder(images), ours(images))
    assert encoder.loaded is not None
    assert encoder.loaded.unexpected == ("module.blocks.7.0.weight", "module.blocks.7.0.bias")


def test_the_modules_of_lightly_are_recognised(tmp_path: Path) -> None:
    """Its own ResNet has no max-pool and other names; its tutorials number the children of a torchvision one."""
    models = pytest.importorskip("lightly.models")
    own = shaken(models.ResNetGenerator("resnet-18"))
    headless = nn.Sequential(*list(own.children())[:-1])
    torch.save({"state_dict": under("backbone.", headless.state_dict())}, tmp_path / "own.ckpt")
    images = torch.randn(2, 3, 32, 32)
    own.linear = nn.Identity()
    encoder = load_encoder(tmp_path / "own.ckpt")
    assert encoder.info.image_size == 32 and "lightly" in encoder.loaded.text  # type: ignore[union-attr]
    torch.testing.assert_close(encoder(images), own(images))

    torchvision = pytest.importorskip("torchvision.models")
    model = shaken(torchvision.resnet18())
    module = nn.Module()
    module.backbone = nn.Sequential(*list(model.children())[:-1])
    module.projection_head = pytest.importorskip("lightly.models.modules").SimCLRProjectionHead(512, 8, 8)
    torch.save({"state_dict": module.state_dict()}, tmp_path / "simclr.ckpt")
    model.fc = nn.Identity()
    torch.testing.assert_close(load_encoder(tmp_path / "simclr.ckpt")(images), model(images))


@pytest.mark.parametrize(("prefix", "heads"), [("module.base_encoder.", 12), ("teacher.backbone.", 6)])
def test_transformers_have_the_heads_of_their_authors(prefix: str, heads: int, tmp_path: Path) -> None:
    """A small transformer of MoCo v3 has twelve heads, DINO's has six, with tensors of the same shapes."""
    model = shaken(timm.create_model("vit_small_patch16_224", num_classes=0, num_heads=heads, img_size=32))
    torch.save({"state_dict": under(prefix, model.state_dict())}, tmp_path / "vit.pth")
    encoder = load_encoder(tmp_path / "vit.pth")
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(encoder(images), model(images))
    assert encoder.info.image_size == 32


def test_timm_prepares_as_timm_does(tmp_path: Path) -> None:
    model = shaken(timm.create_model(SMALLEST))
    for name, save in (("a.pth", torch.save), ("b.safetensors", save_file)):
        save(model.state_dict(), tmp_path / name)  # type: ignore[operator]
        encoder = load_encoder(f"timm:{SMALLEST}@{tmp_path / name}")
        images = torch.randn(2, 3, 64, 64)
        bare = timm.create_model(SMALLEST, num_classes=0)
        bare.load_state_dict({n: t for n, t in model.state_dict().items() if "classifier" not in n})
        torch.testing.assert_close(encoder(images), bare.eval()(images))
        assert set(encoder.loaded.unexpected) == {"classifier.weight", "classifier.bias"}  # type: ignore[union-attr]
    pixels = np.random.default_rng(0).integers(0, 255, (300, 260, 3), dtype=np.uint8)
    from PIL import Image

    image = Image.fromarray(pixels)
    theirs = create_transform(**resolve_model_data_config(model), is_training=False)(image)
    assert isinstance(theirs, Tensor)
    torch.testing.assert_close(
        encoder.preprocess(image), theirs, atol=0.02, rtol=0
    )  # one step of 255, over std


def test_tensors_of_other_names_fit_in_order_only(tmp_path: Path) -> None:
    state = shaken(timm.create_model(SMALLEST)).state_dict()
    renamed = {
        f"_{n}_{name.rpartition('.')[2]}.{name.rpartition('.')[2]}": t
        for n, (name, t) in enumerate(state.items())
    }
    torch.save(renamed, tmp_path / "a.pth")
    encoder = load_encoder(f"timm:{SMALLEST}@{tmp_path / 'a.pth'}")
    torch.testing.assert_close(
        encoder.backbone.state_dict(), {n: t for n, t in state.items() if "classifier" not in n}
    )
    assert "in the same order" in encoder.loaded.text  # type: ignore[union-attr]
    torch.save(dict(reversed(renamed.items())), tmp_path / "b.pth")
    with pytest.raises(UserError, match="lacks"):
        load_encoder(f"timm:{SMALLEST}@{tmp_path / 'b.pth'}")


def test_random_weights_are_the_same_each_time_and_said_to_be_random() -> None:
    one, two = load_encoder(f"timm:{SMALLEST}"), load_encoder(f"timm:{SMALLEST}")
    torch.testing.assert_close(one.state_dict(), two.state_dict(), atol=0, rtol=0)
    assert "random weights" in one.loaded.text  # type: ignore[union-attr]


def test_a_folder_of_a_hub_is_read(tmp_path: Path) -> None:
    """As timm's save_for_hf writes it."""
    hub = pytest.importorskip("timm.models._hub")
    model = shaken(timm.create_model(SMALLEST, num_classes=0))
    hub.save_for_hf(model, tmp_path, model_config={"num_classes": 0})
    encoder = load_encoder(tmp_path)
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(encoder(images), model(images))
    config = json.loads((tmp_path / "config.json").read_text())
    del config["architecture"]
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "vit"}))
    with pytest.raises(UserError, match=r"names no architecture of timm .*'vit'"):
        load_encoder(tmp_path)


def test_what_does_not_fit_is_refused_in_one_message(tmp_path: Path) -> None:
    model = resnet()
    state = model.state_dict()
    file = tmp_path / "a.pth"
    torch.save({name: tensor for name, tensor in state.items() if not name.startswith("layer4.1")}, file)
    with pytest.raises(UserError, match="not known: give its name, timm:NAME@FILE"):
        load_encoder(file)
    with pytest.raises(UserError, match=r"lacks 1?\d of the 120 tensors of resnet18, such as layer4.1"):
        load_encoder(f"timm:resnet18@{file}")
    torch.save(state, file)
    with pytest.raises(UserError, match="belong to another encoder"):
        load_encoder(f"timm:resnet34@{file}")
    torch.save(state | {"bn1.weight": torch.full((64,), float("nan"))}, file)
    with pytest.raises(UserError, match=r"not finite, such as bn1\.weight"):
        load_encoder(file)
    torch.save({"state_dict": state, "code": Fraction(1)}, file)
    with pytest.raises(UserError, match="not read, for safety"):
        load_encoder(file)
    torch.save(under("a.", state) | under("b.", state), file)
    with pytest.raises(UserError, match=r"2 backbones, under a\., b\."):
        load_encoder(file)
    torch.save({"x": torch.zeros(3)}, file)
    with pytest.raises(UserError, match="their names fit no known architecture"):
        load_encoder(file)
    for text, why in (
        ("timm:", "write timm:NAME"),
        (f"timm:{SMALLEST}@", "write timm:NAME"),
        ("timm:resnet19", "did you mean"),
        (f"timm:{SMALLEST}@{tmp_path / 'no'}", "there is no file"),
        (str(tmp_path / "no"), "there is no run folder or weights file"),
    ):
        with pytest.raises(UserError, match=why):
            load_encoder(text)


def test_a_training_starts_from_all_of_these(tmp_path: Path) -> None:
    model = resnet()
    torch.save(LAYOUTS["MoCo v1 or v2"](model.state_dict()), tmp_path / "a.pth")
    target = build_encoder("resnet18", image_size=96)
    loaded = load_weights(target, tmp_path / "a.pth")
    torch.testing.assert_close(target.backbone.state_dict(), model.state_dict())
    assert "MoCo" in loaded.origin
    small = build_encoder("resnet18", image_size=32)
    assert load_weights(small, tmp_path / "a.pth").missing == ("conv1.weight",)
    vit = shaken(timm.create_model("vit_tiny_patch16_224", num_classes=0, img_size=64))
    torch.save(vit.state_dict(), tmp_path / "vit.pth")
    larger = build_encoder("vit_tiny_patch16_224", image_size=96)
    assert load_weights(larger, tmp_path / "vit.pth").missing == ()
