"""A state dict for torchvision's ResNets, alone or as the backbone of its detectors."""

import json
from pathlib import Path

import torch

from cacr.encoders import Encoder, EncoderInfo
from cacr.exporting.detectron2_file import resnet_refusal
from cacr.exporting.format import FORMATS, Features, Format
from cacr.exporting.torch_file import write_state
from cacr.reading.tensors import read_safetensors


@FORMATS.register("torchvision")
class TorchvisionFile(Format):
    """A state dict for torchvision's resnet18 and resnet50, also as a detector's backbone; for more than 64 pixels."""

    suffix = ".safetensors"

    def refusal(self, info: EncoderInfo) -> str | None:
        """Refuse encoders that torchvision does not have."""
        return resnet_refusal(info, "torchvision")

    def write(self, encoder: Encoder, path: Path) -> None:
        """Write the backbone's tensors, which have torchvision's names."""
        write_state(encoder, path)

    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Load the file with torchvision, which refuses missing and additional tensors."""
        from torchvision.models import get_model

        model: torch.nn.Module = get_model(info.encoder, weights=None)
        model.fc = torch.nn.Identity()
        model.load_state_dict(read_safetensors(path))
        return model.eval()

    def code(self, info: EncoderInfo, name: str) -> str:
        """The model without its classifier, and a detector with the same backbone."""
        detector = (
            f'resnet_fpn_backbone(backbone_name="{info.encoder}", weights=None, norm_layer=torch.nn.BatchNorm2d, '
            "trainable_layers=5)"
        )
        return (
            "import torch\nfrom safetensors.torch import load_file\n"
            "from torchvision.models import get_model\n"
            "from torchvision.models.detection.backbone_utils import resnet_fpn_backbone\n\n"
            f"weights = load_file({json.dumps(name)})\n"
            f'encoder = get_model("{info.encoder}", weights=None)\n'
            "encoder.fc = torch.nn.Identity()\nencoder.load_state_dict(weights)\nencoder.eval()\n\n"
            f"backbone = {detector}  # for FasterRCNN and MaskRCNN\n"
            "backbone.body.load_state_dict(weights)"
        )
