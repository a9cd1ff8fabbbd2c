"""The description of an augmentation."""

from dataclasses import dataclass, fields
from typing import Self

from cacr.errors import SettingsError
from cacr.feature_view import Interpolation

LARGEST = 4096
"""Largest side of a view in pixels; no encoder takes more."""


@dataclass(frozen=True)
class Augmentation:
    """One view: crop and resize, flip or orientation, colour jitter, greyscale, blur, solarise, in this order.

    Every part works like the torchvision transform of the same name; only ``upright`` is new.

    Attributes:
        size: Side of the square output, in pixels.
        scale: Smallest and largest share of the image's area in a random resized crop; ``None`` for evaluation, where
            the shorter side is resized to ``resize`` and the centre is cropped.
        ratio: Smallest and largest width / height of a random crop.
        resize: Shorter side before the centre crop; unused with random crops.
        interpolation: Filter of the antialiased resize.
        flip: Probability of a left-right flip, for images that are upright.
        upright: Whether images have an upward direction. If not (cells, aerial photos), a view has one of the eight
            orientations of a square, flipped or not and rotated by 0 to 3 quarter turns, all equally likely.
        jitter: Probability of colour jitter, whose four parts come in random order.
        brightness: A random factor from [max(0, 1 - brightness), 1 + brightness]; the same for contrast and
            saturation.
        contrast: See brightness.
        saturation: See brightness.
        hue: A random shift from [-hue, hue], in turns of the colour wheel; at most 0.5.
        grey: Probability of greyscale (three equal channels).
        blur: Probability of Gaussian blur.
        blur_kernel: Size of the blur kernel, odd.
        blur_sigma: Smallest and largest standard deviation of the blur, in pixels.
        solarise: Probability of inverting all values at or above ``threshold``.
        threshold: Smallest value that is inverted, in [0, 1].
    """

    size: int
    scale: tuple[float, float] | None = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    resize: int | None = None
    interpolation: Interpolation = "bilinear"
    flip: float = 0.5
    upright: bool = True
    jitter: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    grey: float = 0.0
    blur: float = 0.0
    blur_kernel: int = 23
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    solarise: float = 0.0
    threshold: float = 128 / 255

    @classmethod
    def centre(cls, size: int, resize: int, interpolation: Interpolation = "bilinear") -> Self:
        """The evaluation view: resize the shorter side, crop the centre."""
        return cls(size, scale=None, resize=resize, interpolation=interpolation, flip=0.0)

    def __post_init__(self) -> None:
        problems = self._problems()
        if problems:
            raise SettingsError(problems)

    def _problems(self) -> list[str]:
        found = []

        def check(right: bool, message: str) -> None:
            if not right:
                found.append(message)

        check(1 <= self.size <= LARGEST, f"size is {self.size}; it must be 1 to {LARGEST} pixels")
        check(
            self.resize is None or self.resize <= LARGEST,
            f"resize is {self.resize}; it must be at most {LARGEST}",
        )
        if self.scale is None:
            side = self.resize
            check(
                side is not None and side >= self.size,
                f"resize is {side}; without random crops (scale none) it must be at least size, {self.size}",
            )
        else:
            low, high = self.scale
            check(0 < low <= high <= 1, f"scale is {low},{high}; it must satisfy 0 < low <= high <= 1")
        low, high = self.ratio
        check(
            0.001 <= low <= high <= 1000,
            f"ratio is {low},{high}; it must satisfy 0.001 <= low <= high <= 1000",
        )
        check(
            self.interpolation in ("bilinear", "bicubic"),
            f"interpolation is {self.interpolation!r}; it must be bilinear or bicubic",
        )
        for name in ("flip", "jitter", "grey", "blur", "solarise"):
            value = getattr(self, name)
            check(0 <= value <= 1, f"{name} is {value}; it is a probability and must be in [0, 1]")
        for name in ("brightness", "contrast", "saturation"):
            value = getattr(self, name)
            check(0 <= value <= 100, f"{name} is {value}; it must be in [0, 100]")
        check(0 <= self.hue <= 0.5, f"hue is {self.hue}; it must be in [0, 0.5]")
        check(
            self.blur_kernel % 2 == 1 and self.blur_kernel >= 1,
            f"blur_kernel is {self.blur_kernel}; it must be odd and positive",
        )
        check(
            self.blur == 0 or self.blur_kernel // 2 < self.size,
            f"blur_kernel is {self.blur_kernel}; its half must be less than size, {self.size}",
        )
        low, high = self.blur_sigma
        check(0 < low <= high, f"blur_sigma is {low},{high}; it must satisfy 0 < low <= high")
        check(0 <= self.threshold <= 1, f"threshold is {self.threshold}; it must be in [0, 1]")
        return found

    def describe(self) -> str:
        """The settings that differ from the defaults, for listings: ``size=32 scale=0.2,1 jitter=1 ...``."""
        parts = [f"size={self.size}"]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                text = ",".join(f"{v:g}" for v in value) if isinstance(value, tuple) else value
                parts.append(f"{field.name}={text}")
        return " ".join(parts)
