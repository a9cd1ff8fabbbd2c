"""A checkpoint for timm."""

import json
from pathlib import Path
from typing import Any

import torch

from cacr.encoders import Encoder, EncoderInfo, timm_arguments
from cacr.exporting.format import FORMATS, Features, Format
from cacr.exporting.torch_file import timm_call, write_state


@FORMATS.register("timm")
class TimmFile(Format):
    """A checkpoint for timm.create_model(NAME, num_classes=0, checkpoint_path=FILE); for timm's encoders."""

    suffix = ".safetensors"

    def refusal(self, info: EncoderInfo) -> str | None:
        """Refuse architectures that timm cannot build."""
        return timm_refusal(info)

    def write(self, encoder: Encoder, path: Path) -> None:
        """Write the backbone's tensors, which have timm's names."""
        write_state(encoder, path)

    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Load the file with timm, which refuses missing and additional tensors."""
        import timm

        model: torch.nn.Module = timm.create_model(**_arguments(info), checkpoint_path=str(path))
        return model.eval()

    def code(self, info: EncoderInfo, name: str) -> str:
        """The call of ``timm.create_model``."""
        call = timm_call(_arguments(info), checkpoint_path=json.dumps(name))
        return f"import timm\n\nencoder = {call}\nencoder.eval()"


def _arguments(info: EncoderInfo) -> dict[str, Any]:
    arguments = timm_arguments(info)
    assert arguments is not None  # others are refused
    return arguments


def timm_refusal(info: EncoderInfo) -> str | None:
    """Why timm cannot build an encoder, and what to do instead; None if it can."""
    if timm_arguments(info) is not None:
        return None
    why = (
        f"with {info.image_size} pixels it has a 3x3 stem, which timm's {info.encoder} lacks"
        if info.encoder.startswith("resnet")
        else "it is not one of timm's models"
    )
    return f"timm cannot build this {info.encoder}: {why}; use --to torch, or --to onnx"
