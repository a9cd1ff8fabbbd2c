"""The images whose features an encoder computes, apart from their normalisation."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Side = Annotated[int, Field(ge=8, le=2048)]
Interpolation = Literal["bilinear", "bicubic"]


class FeatureView(BaseModel):
    """The centre crop of a resized image.

    Attributes:
        size: side of the crop, in pixels.
        resize: shorter side of the image before the crop, in pixels.
        interpolation: resize filter.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    size: Side
    resize: Side
    interpolation: Interpolation = "bilinear"

    @model_validator(mode="after")
    def _is_inside(self) -> "FeatureView":
        if self.resize < self.size:
            raise ValueError(f"resize {self.resize} must be at least size, {self.size}")
        return self

    def __str__(self) -> str:
        return f"{self.size} px"


def images_at_once(size: int) -> int:
    """Number of images that are encoded at once for the reader and the report of a run, to limit the memory.

    256 of up to 96 pixels, and fewer of larger ones: 47 of 224.
    """
    return max(1, min(256, 256 * 96**2 // size**2))
