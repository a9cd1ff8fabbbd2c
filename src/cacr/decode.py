"""Decode image files of any kind to 8-bit RGB."""

import errno
import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from cacr.errors import UnreadableImageError, UserError

IMAGE_FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "AVIF", "JPEG2000", "GIF", "BMP", "DIB", "TIFF", "PPM")
"""Formats that are decoded, independent of the file name. Pillow knows more; for some it starts other programs."""

LONGEST = 1000
"""Largest ratio of the sides of an image; longer images are refused."""

_ORIENTATION_TAG = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = (5, 6, 7, 8)
# Errors of the file system that mean a damaged image. Any other error (a failing disk, too many open files) must not
# count as a damaged image: it would silently change the training data.
_FILE_TROUBLE = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}


_BEGINNINGS = (
    *(b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"BM"),
    *(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51"),
)
"""First bytes of JPEG, PNG, GIF, BMP, TIFF and JPEG 2000 files."""


def read_rgb(file: Path | BinaryIO, where: str, at_least: int | None = None) -> Image.Image:
    """Decode one image to upright 8-bit RGB.

    The EXIF orientation is applied. Transparent images get a white background. Of an animation, the first frame is
    used. 16-bit grey is divided by 257; 32-bit or float grey has no fixed range, so its own minimum and maximum
    become black and white. Colour profiles are ignored.

    Args:
        file: a path, or an open binary file.
        where: name of the image in messages.
        at_least: both sides of the result have at least this length, if the image is large enough. A large JPEG is then
            decoded at 1/2, 1/4 or 1/8 of its size, which saves most of the work.

    Raises:
        UnreadableImageError: the image is damaged, not an image, not a regular file, or has more pixels than Pillow's
            ``Image.MAX_IMAGE_PIXELS`` (a decompression bomb).
    """
    try:
        with open_image(file, where) as image:
            if at_least is not None:
                image.draft(None, (at_least, at_least))
            orientation = _orientation(image)
            rgb = _to_rgb(image)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # Pillow's decoders raise many kinds of errors on damaged files
        raise unreadable(where, error) from error
    return rgb.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else rgb


def open_image(file: Path | BinaryIO, where: str) -> Image.Image:
    """Open an image and check its size, without decoding the pixels."""
    if isinstance(file, Path):
        require_regular(file, where)
    try:
        image = Image.open(file, formats=_formats())
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, UnidentifiedImageError) and _is_empty(file):
            raise UnreadableImageError(where, "the file is empty") from error
        raise unreadable(where, error) from error
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        image.close()
        raise UnreadableImageError(
            where, f"{image.width} x {image.height} pixels, refused as a decompression bomb (limit {limit:,})"
        )
    if max(image.size) > LONGEST * min(image.size):  # resized by its shorter side it could take any memory
        image.close()
        raise UnreadableImageError(
            where, f"{image.width} x {image.height} pixels: more than {LONGEST:,} times as long as wide"
        )
    return image


def has_image_content(path: str | os.PathLike[str]) -> bool:
    """Whether a file starts like an image of a supported format; False if it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (millions of names)
            start = file.read(16)
    except OSError:
        return False
    if start[:4] == b"RIFF":
        return start[8:12] == b"WEBP"
    if start[4:8] == b"ftyp":
        return start[8:12] in (b"avif", b"avis")
    return start.startswith(_BEGINNINGS)


def upright_size(path: Path, where: str) -> tuple[int, int]:
    """Width and height of the result of :func:`read_rgb`, from the header alone.

    Raises:
        UnreadableImageError: as :func:`read_rgb`.
    """
    with open_image(path, where) as image:
        return image.size[::-1] if _orientation(image) in _SIDEWAYS else image.size


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in IMAGE_FORMATS if name in Image.OPEN)


def require_regular(path: Path, where: str) -> None:
    """Refuse pipes, sockets and devices, because reading them may block; missing files fail later, when opened.

    Raises:
        UnreadableImageError: the file is none of them; ``where`` names it.
    """
    with suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UnreadableImageError(where, "a pipe, socket or device, not a file")


def unreadable(where: str, error: Exception) -> UserError:
    """The error for an image that failed to load: damage of the image, or a failure of the file system."""
    if isinstance(error, OSError) and error.errno not in _FILE_TROUBLE:
        return UserError(
            f"{where}: {error.strerror or error}; the file system failed, the image itself may be fine"
        )
    if isinstance(error, UnidentifiedImageError):
        return UnreadableImageError(where, "not an image, or an unknown format")
    if isinstance(error, OSError) and error.errno is not None:
        return UnreadableImageError(where, str(error.strerror))
    return UnreadableImageError(where, str(error) or type(error).__name__)


def _is_empty(file: Path | BinaryIO) -> bool:
    return (file.stat().st_size if isinstance(file, Path) else file.seek(0, os.SEEK_END)) == 0


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # a damaged EXIF block does not make the picture unreadable
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        image.load()
        return image.copy() if image.readonly else image
    if image.mode.startswith(("I", "F")):
        return _grey_to_8_bit(image).convert("RGB")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")


def _grey_to_8_bit(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.float64)
    values = np.nan_to_num(values, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I") and low >= 0 and high <= 65535:
        low, high = 0.0, 65535.0
    scaled = (values - low) * (255.0 / (high - low)) if high > low else np.zeros_like(values)
    return Image.fromarray(np.rint(scaled).astype(np.uint8))
