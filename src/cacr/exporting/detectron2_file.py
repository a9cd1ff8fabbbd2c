"""A checkpoint for detectron2, with its own names."""

import json
import re
from pathlib import Path

import torch
from torch import Tensor

from cacr.encoders import Encoder, EncoderInfo, build_encoder
from cacr.encoders.resnet import LARGEST_SMALL, RESNETS
from cacr.exporting.format import FORMATS, Features, Format
from cacr.reading.tensors import read_torch

CONFIGS = {
    "resnet50": "COCO-Detection/faster_rcnn_R_50_C4_1x.yaml or COCO-Detection/faster_rcnn_R_50_FPN_1x.yaml",
    "resnet18": "such a config with RESNETS.DEPTH 18 and RESNETS.RES2_OUT_CHANNELS 64",
}


@FORMATS.register("detectron2")
class Detectron2File(Format):
    """MODEL.WEIGHTS for detectron2's ResNet configs, C4 and FPN; for resnet18 and resnet50 of more than 64 pixels."""

    suffix = ".pth"

    def refusal(self, info: EncoderInfo) -> str | None:
        """Refuse encoders that detectron2 does not have."""
        return resnet_refusal(info, "detectron2")

    def write(self, encoder: Encoder, path: Path) -> None:
        """Write the tensors with detectron2's names.

        They have no prefix: ``matching_heuristics`` makes detectron2 find ``res5.0.conv1.weight`` under
        ``backbone.bottom_up`` in an FPN, and in the head of a C4.
        """
        state = {detectron2_name(n): t.cpu().contiguous() for n, t in encoder.backbone.state_dict().items()}
        torch.save({"model": state, "__author__": "cacr", "matching_heuristics": True}, path)

    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Read the file with the names converted back, as detectron2 is on no package index; checks every tensor."""
        encoder = build_encoder(info.encoder, image_size=info.image_size).eval()
        own = encoder.backbone.state_dict()
        names = {detectron2_name(name): name for name in own}
        stored: dict[str, Tensor] = read_torch(path)["model"]
        encoder.backbone.load_state_dict({names[name]: tensor for name, tensor in stored.items()})
        return encoder

    def code(self, info: EncoderInfo, name: str) -> str:
        """The lines of a config."""
        mean, std = ([round(255 * value, 3) for value in values] for values in (info.mean, info.std))
        return (
            f"# {CONFIGS[info.encoder]}, with\n"
            "from detectron2.config import get_cfg\n\n"
            "cfg = get_cfg()\n"
            f"cfg.MODEL.WEIGHTS = {json.dumps(name)}\n"
            f"cfg.MODEL.PIXEL_MEAN, cfg.MODEL.PIXEL_STD = {mean}, {std}\n"
            'cfg.INPUT.FORMAT = "RGB"\n'
            "cfg.MODEL.RESNETS.STRIDE_IN_1X1 = False  # as PyTorch's ResNets are\n"
            'cfg.MODEL.RESNETS.NORM = "SyncBN"\n'
            "cfg.MODEL.BACKBONE.FREEZE_AT = 0"
        )


def detectron2_name(name: str) -> str:
    """detectron2's name of a tensor of a ResNet: ``layer1.0.bn2.weight`` is ``res2.0.conv2.norm.weight``."""
    name = re.sub(r"^layer(\d)", lambda found: f"res{int(found[1]) + 1}", name)
    if not name.startswith("res"):
        name = f"stem.{name}"
    name = re.sub(r"\bbn(\d)\.", r"conv\1.norm.", name)
    return name.replace("downsample.0.", "shortcut.").replace("downsample.1.", "shortcut.norm.")


def resnet_refusal(info: EncoderInfo, software: str) -> str | None:
    """Why an encoder is not one of the ResNets of other software with the same name; None if it is."""
    if info.encoder in RESNETS and info.image_size > LARGEST_SMALL:
        return None
    why = (
        f"with {info.image_size} pixels it has a 3x3 stem, which {software}'s {info.encoder} lacks"
        if info.encoder in RESNETS
        else f"only {' and '.join(RESNETS)} are supported"
    )
    return f"{software} cannot use this {info.encoder}: {why}; use --to torch, or --to timm"
