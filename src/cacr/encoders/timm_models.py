"""Build backbones by their timm name. timm takes seconds to import, so it is imported inside of the functions."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import nn

from cacr.errors import UserError
from cacr.registry import UnknownNameError, nearest


def create(name: str, *, pretrained: bool = False, **options: Any) -> nn.Module:
    """A timm model without its classifier.

    Args:
        name: A name of timm, with or without the tag of pretrained weights.
        pretrained: Load timm's weights, from the network if they are not cached.
        options: More arguments of the model.
    """
    import timm

    try:
        model: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
    except Exception as error:
        if not pretrained:
            raise
        raise UserError(f"cannot load timm's pretrained weights of {name}: {error}") from error
    return model


def require_timm_name(name: str, own: list[str]) -> None:
    """Refuse a name that timm does not know.

    Args:
        name: The name to look up.
        own: Names of cacr's own encoders, for suggestions.

    Raises:
        UnknownNameError: suggests names.
    """
    import timm

    if not timm.is_model(name):
        all_names = sorted({*own, *timm.list_models()})
        hint = nearest(name, all_names, otherwise=f"known: {', '.join(own)} and timm's names")
        raise UnknownNameError(f"there is no encoder {name!r}; {hint}")


def has_positions(name: str) -> bool:
    """Whether timm builds a model for one image size: it has position embeddings, as transformers do."""
    import timm

    described = timm.get_pretrained_cfg(name, allow_unregistered=True)
    return described is not None and bool(described.fixed_input_size)


def timm_backbone(
    name: str, *, image_size: int, pretrained: bool = False, any_size: bool = False, **further: int
) -> nn.Module:
    """A timm model for images of a given size.

    Args:
        name: A name that timm knows.
        image_size: Side of the images in pixels.
        pretrained: Load timm's weights.
        any_size: Also accept images of other sizes, with interpolated position embeddings.
        further: More arguments of the model.
    """
    sized = size_options(name, image_size)
    options: dict[str, Any] = sized | further
    if any_size and sized:
        options["dynamic_img_size"] = True
    try:
        return create(name, pretrained=pretrained, **options)
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{name} cannot be built for images of {image_size} pixels: {error}") from error


def stem_options(channels: int) -> dict[str, int]:
    """Arguments to build a timm model for images with this number of channels; empty for RGB."""
    return {} if channels == 3 else {"in_chans": channels}


def size_options(name: str, image_size: int) -> dict[str, int]:
    """Arguments to build a timm model for images of a given size."""
    # Only models with position embeddings have a fixed size; convolutional ones refuse the argument.
    return {"img_size": image_size} if has_positions(name) else {}


@dataclass(frozen=True)
class Preparation:
    """The preprocessing of images for a timm model."""

    image_size: int
    resize: int
    interpolation: Literal["bilinear", "bicubic"]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def preparation_of(name: str, described: dict[str, Any] | None = None) -> Preparation:
    """The preprocessing of a timm model.

    Args:
        name: A name that timm knows.
        described: The ``pretrained_cfg`` of a file, which has priority.

    Raises:
        UserError: the described values are not possible.
    """
    import timm
    from timm.data.config import resolve_data_config

    known = timm.get_pretrained_cfg(name, allow_unregistered=True)
    settings = ({} if known is None else asdict(known)) | (described or {})
    try:
        found = resolve_data_config({}, pretrained_cfg=settings)  # type: ignore[no-untyped-call]
        channels, side, _ = (int(number) for number in found["input_size"])
        shorter = math.floor(side / float(found["crop_pct"]))
        mean, std = (tuple(float(value) for value in found[key]) for key in ("mean", "std"))
    except (TypeError, ValueError, KeyError, ZeroDivisionError, OverflowError) as error:
        raise UserError(f"the preprocessing of {name} cannot be read: {error}") from None
    sound = channels == len(mean) == len(std) == 3 and all(0 < value < 1e4 for value in std)
    if not sound or not 0 < side <= shorter <= 4096:
        raise UserError(
            f"the preprocessing of {name} is not possible: {side} px after {shorter}, mean {mean}, std {std}"
        )
    filtering: Literal["bilinear", "bicubic"] = (
        "bicubic" if found["interpolation"] == "bicubic" else "bilinear"
    )
    return Preparation(side, shorter, filtering, mean, std)  # type: ignore[arg-type]  # three, as seen
