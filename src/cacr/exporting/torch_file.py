"""A state dict for PyTorch."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save

from cacr.encoders import Encoder, EncoderInfo, build_described, timm_arguments
from cacr.encoders.resnet import RESNETS
from cacr.encoders.small_alexnet import layer_widths, pooled
from cacr.exporting.format import FORMATS, Features, Format
from cacr.reading.tensors import read_safetensors


@FORMATS.register("torch")
class TorchFile(Format):
    """A state dict as .safetensors, with the code that loads it; for every encoder."""

    suffix = ".safetensors"

    def write(self, encoder: Encoder, path: Path) -> None:
        """Write the backbone's tensors with their own names."""
        write_state(encoder, path)

    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Build the architecture again and load the weights."""
        encoder = build_described(info).eval()
        encoder.backbone.load_state_dict(read_safetensors(path))
        return encoder

    def code(self, info: EncoderInfo, name: str) -> str:
        """Code with timm if timm has the architecture, or nearly has it; otherwise only with PyTorch."""
        fill = f"encoder.load_state_dict(load_file({json.dumps(name)}))\nencoder.eval()"
        load = "from safetensors.torch import load_file\n"
        if (arguments := timm_arguments(info)) is not None:
            return f"import timm\n{load}\nencoder = {timm_call(arguments)}\n{fill}"
        if info.encoder in RESNETS:
            stem = f"torch.nn.Conv2d({info.channels}, 64, kernel_size=3, padding=1, bias=False), torch.nn.Identity()"
            made = f'encoder = timm.create_model("{info.encoder}", num_classes=0)'
            changed = f"encoder.conv1, encoder.maxpool = {stem}"
            return f"import timm, torch\n{load}\n{made}\n{changed}\n{fill}"
        return (
            f"from collections import OrderedDict\n\n{load}from torch import nn\n\n{_alexnet(info)}\n{fill}"
        )


def _alexnet(info: EncoderInfo) -> str:
    """Plain PyTorch code that builds ``small_alexnet``."""
    c1, c2, c3, c5, wide = layer_widths(info.width)
    flat = c5 * pooled(pooled(pooled(info.image_size))) ** 2
    return (
        "def conv(i, o, *pool):\n"
        "    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), *pool)\n\n"
        "def dense(i, o):\n"
        "    return [nn.Linear(i, o, bias=False), nn.BatchNorm1d(o), nn.ReLU()]\n\n"
        "encoder = nn.Sequential(OrderedDict(\n"
        f"    conv1=conv({info.channels}, {c1}, nn.MaxPool2d(3, 2)),\n"
        f"    conv2=conv({c1}, {c2}, nn.MaxPool2d(3, 2)),\n"
        f"    conv3=conv({c2}, {c3}),\n"
        f"    conv4=conv({c3}, {c3}),\n"
        f"    conv5=conv({c3}, {c5}, nn.MaxPool2d(3, 2)),\n"
        f"    fc6=nn.Sequential(nn.Flatten(), *dense({flat}, {wide})),\n"
        f"    fc7=nn.Sequential(*dense({wide}, {wide})),\n"
        "))"
    )


def write_state(encoder: Encoder, path: Path) -> None:
    """Write the tensors of the backbone as safetensors."""
    state = {name: tensor.cpu().contiguous() for name, tensor in encoder.backbone.state_dict().items()}
    path.write_bytes(save(state, metadata={"format": "pt"}))  # save_file would hide it from other users


def timm_call(arguments: dict[str, Any], **further: Any) -> str:
    """The call of ``timm.create_model`` as a line of Python."""
    name, *others = (arguments | further).items()
    return f'timm.create_model("{name[1]}", {", ".join(f"{key}={value}" for key, value in others)})'
