"""A folder for timm and for model hubs."""

import json
from pathlib import Path
from typing import Any

import torch

from cacr.encoders import Encoder, EncoderInfo
from cacr.encoders.as_timm import timm_arguments
from cacr.encoders.origins import CONFIG, HUB_WEIGHTS
from cacr.exporting.format import FORMATS, Features, Files, Format
from cacr.exporting.timm_file import timm_refusal
from cacr.exporting.torch_file import write_state

CARD = "README.md"


@FORMATS.register("hub")
class HubFolder(Format):
    """A folder for timm.create_model("local-dir:FOLDER", pretrained=True) and for model hubs; for timm's encoders."""

    suffix = ""

    def refusal(self, info: EncoderInfo) -> str | None:
        """Refuse architectures that timm cannot build."""
        return timm_refusal(info)

    def files(self, out: Path) -> Files:
        """Files in the folder, with the names that hubs expect."""
        weights = out / HUB_WEIGHTS[0]
        reader = weights.with_name(f"{weights.stem}.reader.safetensors")
        return Files(weights, weights.with_suffix(".json"), out / CARD, reader)

    def write(self, encoder: Encoder, path: Path) -> None:
        """Create the folder, with weights and ``config.json``."""
        path.mkdir()
        write_state(encoder, path / HUB_WEIGHTS[0])
        (path / CONFIG).write_text(json.dumps(hub_config(encoder.info), indent=2) + "\n", encoding="utf-8")

    def read(self, info: EncoderInfo, path: Path) -> Features:
        """Load the folder with timm."""
        import timm

        model: torch.nn.Module = timm.create_model(f"local-dir:{path}", pretrained=True)
        return model.eval()

    def code(self, info: EncoderInfo, name: str) -> str:
        """The call of ``timm.create_model``."""
        return (
            f"import timm\n\nencoder = timm.create_model({json.dumps(f'local-dir:{name}')}, pretrained=True)\n"
            "encoder.eval()"
        )


def hub_config(info: EncoderInfo) -> dict[str, Any]:
    """The content of ``config.json``: the architecture, its arguments, and the preprocessing."""
    arguments = dict(timm_arguments(info) or {})
    return {
        "architecture": arguments.pop("model_name"),
        "num_classes": 0,
        "num_features": info.feature_dim,
        "model_args": arguments,
        "pretrained_cfg": {
            "tag": "cacr",
            "custom_load": False,
            "input_size": [len(info.mean), info.image_size, info.image_size],
            "fixed_input_size": "img_size" in arguments,
            "interpolation": info.interpolation,
            "crop_pct": info.image_size / (info.resize or info.image_size),
            "crop_mode": "center",
            "mean": list(info.mean),
            "std": list(info.std),
            "num_classes": 0,
        },
    }
