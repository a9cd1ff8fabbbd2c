"""A state dict that PyTorch loads."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save

from cacr.encoders import Encoder, EncoderInfo, build_encoder, timm_arguments
from cacr.encoders.resnet import RESNETS
from cacr.exporting.format import FORMATS, Features, Format
from cacr.reading.tensors import read_safetensors


@FORMATS.register("torch")
class TorchFile(Format):
    """A state dict as .safetensors, with the lines that load it; for every encoder."""

    suffix = ".safetensors"

    def write(self, encoder: Encoder, path: Path) -> None:
        """Write the backbone's tensors under their own names."""
        write_state(encoder, path)

    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Build the architecture anew and fill it."""
        encoder = build_encoder(info.encoder, image_size=info.image_size, width=info.width).eval()
        encoder.backbone.load_state_dict(read_safetensors(path))
        return encoder

    def code(self, info: EncoderInfo, name: str) -> str:
        """With timm alone where timm has the architecture, or nearly has it."""
        fill = f"encoder.load_state_dict(load_file({json.dumps(name)}))\nencoder.eval()"
        load = "from safetensors.torch import load_file\n"
        if (arguments := timm_arguments(info)) is not None:
            return f"import timm\n{load}\nencoder = {timm_call(arguments)}\n{fill}"
        if info.encoder in RESNETS:
            stem = "torch.nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False), torch.nn.Identity()"
            made = f'encoder = timm.create_model("{info.encoder}", num_classes=0)'
            changed = f"encoder.conv1, encoder.maxpool = {stem}"
            return f"import timm, torch\n{load}\n{made}\n{changed}\n{fill}"
        width = "" if info.width == 1 else f", width={info.width!r}"
        made = f'build_encoder("{info.encoder}", image_size={info.image_size}{width}).backbone'
        return f"{load}from cacr.encoders import build_encoder\n\nencoder = {made}\n{fill}"


def write_state(encoder: Encoder, path: Path) -> None:
    """Write the tensors of the backbone as safetensors."""
    state = {name: tensor.cpu().contiguous() for name, tensor in encoder.backbone.state_dict().items()}
    path.write_bytes(save(state, metadata={"format": "pt"}))  # save_file would hide it from other users


def timm_call(arguments: dict[str, Any], **further: Any) -> str:
    """The call of ``timm.create_model`` as a line of Python."""
    name, *others = (arguments | further).items()
    return f'timm.create_model("{name[1]}", {", ".join(f"{key}={value}" for key, value in others)})'
