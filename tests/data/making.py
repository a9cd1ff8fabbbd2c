"""Images and sets for the tests of data, made on the spot."""

import io
import tarfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image


def picture(seed: int = 0, width: int = 24, height: int = 16) -> Image.Image:
    """A smooth random picture, which JPEG keeps nearly as it is."""
    coarse = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR)


def save(path: Path, image: Image.Image | None = None, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    (picture() if image is None else image).save(path, **options)  # type: ignore[arg-type]
    return path


def numbered(folder: Path, count: int, size: int = 12) -> Path:
    """A folder of ``count`` images whose pixels all equal their number, by which a batch can be read back."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.new("RGB", (size + number % 3, size), (number, number, number)).save(
            folder / f"{number:03}.png"
        )
    return folder


def truncate(path: Path, keep: float = 0.5) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def noisy_crop(image: Image.Image, generator: torch.Generator) -> list[torch.Tensor]:
    """Two views of 4 x 4 and one of 2 x 2: the top left pixel, plus noise that only the generator decides."""
    corner = torch.from_numpy(np.array(image.crop((0, 0, 4, 4)))).permute(2, 0, 1)
    noise = torch.randint(0, 2, (3, 3, 4, 4), generator=generator, dtype=torch.uint8) * 100
    views = corner + noise
    return [views[:2], views[2:, :, :2, :2]]


def plain_crop(image: Image.Image, generator: torch.Generator) -> list[torch.Tensor]:
    return [torch.from_numpy(np.array(image.crop((0, 0, 4, 4)))).permute(2, 0, 1)[None]]


def encoded(number: int, kind: str = "PNG") -> bytes:
    """A small image of one grey as the content of a file."""
    content = io.BytesIO()
    Image.new("RGB", (12, 12), (number, number, number)).save(content, kind)
    return content.getvalue()


def write_shard(path: Path, files: dict[str, bytes]) -> Path:
    """A tar file of these files."""
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
