"""Find out which encoders are plain timm models."""

from typing import Any

from cacr.encoders.encoder import EncoderInfo
from cacr.encoders.registry import ENCODERS
from cacr.encoders.resnet import LARGEST_SMALL, RESNETS
from cacr.encoders.timm_models import size_options, stem_options


def timm_arguments(info: EncoderInfo) -> dict[str, Any] | None:
    """Arguments of ``timm.create_model`` that build the backbone, ``model_name`` first; None if it cannot."""
    if info.encoder in RESNETS and info.image_size > LARGEST_SMALL:
        return {"model_name": info.encoder, "num_classes": 0, **stem_options(info.channels)}
    if info.encoder in ENCODERS:
        return None
    sized = size_options(info.encoder, info.image_size)
    return {
        "model_name": info.encoder,
        "num_classes": 0,
        **sized,
        **stem_options(info.channels),
        **info.options,
    }
