"""From an image file of any kind to plain 8-bit RGB."""

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
"""What is decoded, whatever a file's name says. Pillow knows more; for some it starts other programs."""

LONGEST = 1000
"""Length of an image, as a multiple of its width, above which it is refused."""

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
# What the file system says of a file that is the image's own trouble. Anything else (a failing disk, too many
# open files) must not pass as a damaged image: it would silently change what is trained on.
_FILE_TROUBLE = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}


_BEGINNINGS = (
    *(b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"BM"),
    *(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51"),
)
"""How JPEG, PNG, GIF, BMP, TIFF and JPEG 2000 files begin."""


def read_rgb(file: Path | BinaryIO, where: str, at_least: int | None = None) -> Image.Image:
    """Decode one image to upright 8-bit RGB.

    The EXIF orientation is applied, transparency is laid on white, the first frame stands for an animation,
    16-bit grey is divided by 257, and 32-bit or float grey, which has no fixed range, is stretched to its
    own extremes. Colour profiles are ignored.

    Args:
        file: a path, or an open binary file.
        where: how messages name the image.
        at_least: both sides of the result are at least this long where the image's own are; a large JPEG is
            then decoded at a half, a quarter or an eighth of its size, which saves most of the work.

    Raises:
        UnreadableImageError: the image is damaged, not an image, or has more pixels than Pillow's
            ``Image.MAX_IMAGE_PIXELS`` (a decompression bomb), or is no regular file.
    """
    try:
        with open_image(file, where) as image:
            if at_least is not None:
                image.draft(None, (at_least, at_least))
            orientation = _orientation(image)
            rgb = _to_rgb(image)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # Pillow's format readers raise whatever the damage makes them
        raise unreadable(where, error) from error
    return rgb.transpose(_UPRIGHT[orientation]) if orientation in _UPRIGHT else rgb


def open_image(file: Path | BinaryIO, where: str) -> Image.Image:
    """Read the header only; the size is known and checked, the pixels are not decoded."""
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
    """Whether a file begins as an image of a format that is read; False where it cannot be looked at."""
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
    """Width and height of what :func:`read_rgb` gives, from the header alone.

    Raises:
        UnreadableImageError: as there.
    """
    with open_image(path, where) as image:
        return image.size[::-1] if _orientation(image) in _SIDEWAYS else image.size


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in IMAGE_FORMATS if name in Image.OPEN)


def require_regular(path: Path, where: str) -> None:
    """Refuse pipes, sockets and devices, which would be waited for; what is missing shows when it is opened.

    Raises:
        UnreadableImageError: names the file as ``where``.
    """
    with suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UnreadableImageError(where, "a pipe, socket or device, not a file")


def unreadable(where: str, error: Exception) -> UserError:
    """The damage of an image in words, or the trouble of the machine that only looks like it."""
    if isinstance(error, OSError) and error.errno not in _FILE_TROUBLE:
        return UserError(
            f"{where}: {error.strerror or error}; the file system failed, the image may be sound"
        )
    if isinstance(error, UnidentifiedImageError):
        return UnreadableImageError(where, "not an image, or of an unknown format")
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
    low, high = values.min(), values.max()
    if image.mode.startswith("I") and low >= 0 and high <= 65535:
        low, high = 0.0, 65535.0
    scaled = (values - low) * (255.0 / (high - low)) if high > low else np.zeros_like(values)
    return Image.fromarray(np.rint(scaled).astype(np.uint8))
