"""Encoders for other software's detectors, tensor by tensor."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cacr.encoders import build_encoder, load_encoder, save_encoder
from cacr.errors import UserError
from cacr.exporting import export_run
from cacr.exporting.detectron2_file import detectron2_name


def _run(folder: Path, name: str, size: int = 96) -> Path:
    torch.manual_seed(0)
    encoder = build_encoder(name, image_size=size)
    save_encoder(folder, encoder, encoder.info)
    return folder


def _norm(name: str, channels: int) -> dict[str, tuple[int, ...]]:
    parts = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{part}": (channels,) for part in parts} | {f"{name}.num_batches_tracked": ()}


def _layer(name: str, out: int, into: int, side: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into, side, side), **_norm(f"{name}.norm", out)}


def detectron2_resnet(depth: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the backbone as detectron2/modeling/backbone/resnet.py makes it.

    ``BasicStem``: conv1, 7x7, 64 channels. ``BottleneckBlock`` (R50): conv1 1x1, conv2 3x3, conv3 1x1;
    ``BasicBlock`` (R18): conv1 and conv2 3x3; either with a 1x1 shortcut where the channels change. Each is a Conv2d
    with ``norm`` inside. ``ResNet.make_default_stages``: stages res2 to res5, 3-4-6-3 or 2-2-2-2 blocks; the channels
    double from stage to stage, from 256 (bottleneck 64) or 64 on.
    """
    names = _layer("stem.conv1", 64, 3, 7)
    blocks, out = ([3, 4, 6, 3], 256) if depth == 50 else ([2, 2, 2, 2], 64)
    into = 64
    for stage, count in enumerate(blocks):
        for number in range(count):
            place = f"res{stage + 2}.{number}"
            if into != out:
                names |= _layer(f"{place}.shortcut", out, into, 1)
            if depth == 50:
                inner = out // 4
                names |= _layer(f"{place}.conv1", inner, into, 1) | _layer(f"{place}.conv2", inner, inner, 3)
                names |= _layer(f"{place}.conv3", out, inner, 1)
            else:
                names |= _layer(f"{place}.conv1", out, into, 3) | _layer(f"{place}.conv2", out, out, 3)
            into = out
        out *= 2
    return names


@pytest.mark.parametrize(("name", "depth"), [("resnet18", 18), ("resnet50", 50)])
def test_detectron2_finds_every_tensor_by_its_own_name_and_shape(
    name: str, depth: int, tmp_path: Path
) -> None:
    run = _run(tmp_path / "run", name)
    done = export_run(run, "detectron2", tmp_path / "encoder.pth")
    stored = torch.load(done.file, weights_only=True)
    assert stored["matching_heuristics"] is True
    assert {key: tuple(tensor.shape) for key, tensor in stored["model"].items()} == detectron2_resnet(depth)
    own = load_encoder(run).backbone.state_dict()
    for key, tensor in own.items():
        assert torch.equal(stored["model"][detectron2_name(key)], tensor)
    assert done.difference == 0 and (tmp_path / "encoder.pth.json").exists()
    assert "STRIDE_IN_1X1 = False" in done.code and '"encoder.pth"' in done.code


def test_names_of_some_tensors_by_hand() -> None:
    assert detectron2_name("conv1.weight") == "stem.conv1.weight"
    assert detectron2_name("bn1.running_var") == "stem.conv1.norm.running_var"
    assert detectron2_name("layer1.0.downsample.0.weight") == "res2.0.shortcut.weight"
    assert detectron2_name("layer4.2.downsample.1.bias") == "res5.2.shortcut.norm.bias"
    assert detectron2_name("layer3.5.bn3.weight") == "res4.5.conv3.norm.weight"


def test_the_lines_for_torchvision_fill_its_model_and_the_body_of_its_detectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(tmp_path / "run", "resnet18")
    done = export_run(run, "torchvision", tmp_path / "encoder.safetensors")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(done.code, "printed", "exec"), names)
    images = torch.randn(2, 3, 96, 96)
    with torch.inference_mode():
        torch.testing.assert_close(names["encoder"](images), load_encoder(run)(images))  # type: ignore[operator]
    body = names["backbone"].body.state_dict()  # type: ignore[attr-defined]
    stored = load_file(done.file)
    assert body.keys() == stored.keys() and all(torch.equal(body[name], stored[name]) for name in body)


@pytest.mark.parametrize("to", ["detectron2", "torchvision"])
def test_what_they_do_not_have_is_refused(to: str, tmp_path: Path) -> None:
    out = tmp_path / ("encoder.pth" if to == "detectron2" else "encoder.safetensors")
    with pytest.raises(UserError, match="3x3 stem"):
        export_run(_run(tmp_path / "small", "resnet18", 32), to, out)
    with pytest.raises(UserError, match="resnet18 and resnet50"):
        export_run(_run(tmp_path / "lite", "mobilenetv3_small_050", 64), to, out)
    assert not out.exists()
