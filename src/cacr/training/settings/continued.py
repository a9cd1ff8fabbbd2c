"""Settings that follow from the initial weights of a run (``init``)."""

from typing import Any

from cacr.config import PretrainSettings
from cacr.encoders import EncoderInfo, is_fetched, load_encoder, locate
from cacr.encoders.resnet import LARGEST_SMALL, RESNETS
from cacr.encoders.sizes import has_one_size, takes
from cacr.errors import UserError
from cacr.feature_view import FeatureView
from cacr.frameworks import FRAMEWORKS
from cacr.reading.files import any_path
from cacr.shell import shell_words

TIMM = "timm"
"""Value of ``init`` for timm's pretrained weights of the chosen encoder."""

LEAST_RESNET = 128
"""Smallest views, in pixels, for a ResNet with the first layer for large images; smaller views get another one."""


def continued(settings: PretrainSettings) -> PretrainSettings:
    """Replace ``auto`` where ``init`` decides: encoder, width, normalisation and the images for features.

    Weights that were trained with one normalisation are worse with another, even before the first step: 4.3 points of
    a ridge classifier in ``docs/results.md``. So the views use the normalisation of the weights, if no other is given.
    The same holds for the size of images: with ImageNet weights for 224 px, 77 % of pets of 72 px are recognised if
    they are enlarged to that size, and 39 % with 64 px. So views may be small, to save time, but features are computed
    from images as large as those of the weights.

    Raises:
        UserError: the weights do not exist, or must not be downloaded.
    """
    if settings.init is None:
        return settings
    init = _whole(settings.init, settings.encoder)
    if is_fetched(init) and not settings.download:
        given = shell_words("--init", settings.init)
        raise UserError(f"{given} downloads weights: allow it with --download")
    found = _described(init, settings)
    chosen: dict[str, Any] = {"init": init}
    if found is not None:
        if settings.encoder == "auto":
            chosen["encoder"] = found.encoder
        if chosen.get("encoder", settings.encoder) == found.encoder:
            chosen |= _of_encoder(settings, found)
        chosen["view_options"] = {"mean": found.mean, "std": found.std} | settings.view_options
    return settings.model_copy(update=chosen)


def _whole(init: str, encoder: str) -> str:
    """The name of the weights with absolute paths, valid in any folder."""
    if init == TIMM:
        if encoder == "auto":
            raise UserError("--init timm needs the name of a model: write --init timm:NAME")
        return f"timm:{encoder}"
    model, at, file = init.partition("@")
    if init.startswith("timm:"):
        return f"{model}@{any_path(file).resolve()}" if at else init
    return str(any_path(init).resolve())


def _described(init: str, settings: PretrainSettings) -> EncoderInfo | None:
    """The encoder of the weights; None for a file that fits the chosen encoder but does not describe itself."""
    try:
        return load_encoder(init, with_reader=False, download=settings.download).info
    except UserError:
        if locate(init).kind == "checkpoint" and settings.encoder != "auto":
            return None
        raise


def _of_encoder(settings: PretrainSettings, found: EncoderInfo) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if settings.width == "auto":
        chosen["width"] = found.width
    if settings.image_size == "auto":
        if has_one_size(found.encoder):
            chosen["image_size"] = found.image_size
        elif found.encoder in RESNETS and found.image_size > LARGEST_SMALL:
            chosen["image_size"] = min(found.image_size, LEAST_RESNET)
    if settings.feature_view == "auto":
        size = chosen.get("image_size", settings.image_size)
        # the head and text encoder are part of the result of a run with captions, and learn from views only
        captions = settings.framework in FRAMEWORKS and FRAMEWORKS[settings.framework].reads_captions
        if not captions and (size == "auto" or takes(found.encoder, size, found.image_size)):
            chosen["feature_view"] = FeatureView(
                size=found.image_size,
                resize=found.resize or found.image_size,
                interpolation=found.interpolation,
            )
    return chosen
