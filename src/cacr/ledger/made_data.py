"""Small data sets made of digits, for smoke runs of items with captions and objects: nothing has to be downloaded."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cacr.data import open_source
from cacr.data.registry import Part

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CAPTIONED = 96
"""Number of images with captions."""

SCENES: dict[Part, int] = {"train": 10, "test": 2}
"""Number of scenes per part; the training part has one per digit."""

SIDE, MOST = 64, 3
"""Side of a scene in pixels, and largest number of digits."""


def made(name: str, root: Path) -> str:
    """Create one of the data sets if it does not exist; return its name for commands.

    Args:
        name: one of :data:`MADE`.
        root: folder with one sub-folder per data set.
    """
    spec, write = MADE[name]
    folder = root / name
    if not folder.exists():
        root.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=root))
        write(fresh)
        try:
            fresh.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(fresh)
    return spec.format(folder)


def _write_captioned(folder: Path) -> None:
    """Digits with one sentence each."""
    images, labels = _digits("train", CAPTIONED)
    lines = []
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        name = f"{number:03}.png"
        Image.fromarray(image).save(folder / name)
        lines.append(json.dumps({"image": name, "captions": [f"the digit {WORDS[label]}"]}))
    (folder / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")


def _write_scenes(folder: Path) -> None:
    """Dark images with one to three digits, their boxes and masks."""
    for part in SCENES:
        _write_part(folder / part, part)


MADE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "digit-captions": ("pairs:{}/train.jsonl", _write_captioned),
    "digit-scenes": ("coco:{}", _write_scenes),
}
"""Name of a data set -> its name for commands, without the folder, and the function that writes it."""


def _write_part(folder: Path, part: Part) -> None:
    (folder / "images").mkdir(parents=True)
    scenes = SCENES[part]
    digits, labels = _digits(part, scenes * MOST)
    rng = np.random.default_rng(0)
    images: list[dict[str, Any]] = []
    objects: list[dict[str, Any]] = []
    for number in range(scenes):
        scene = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
        corners = rng.permutation([(0, 0), (0, 32), (32, 0), (32, 32)])[: 1 + number % MOST].tolist()
        for place, (top, left) in enumerate(corners):
            drawn, label = digits[MOST * number + place], labels[MOST * number + place]
            height, width = drawn.shape[:2]
            scene[top : top + height, left : left + width] = drawn
            box = [left, top, width, height]
            outline = [left, top, left + width, top, left + width, top + height, left, top + height]
            objects.append(
                {"id": len(objects) + 1, "image_id": number, "category_id": int(label), "bbox": box}
                | {"segmentation": [outline], "iscrowd": 0}
            )
        name = f"{number:03}.png"
        Image.fromarray(scene).save(folder / "images" / name)
        images.append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
    categories = [{"id": number, "name": word} for number, word in enumerate(WORDS)]
    document = {"images": images, "categories": categories, "annotations": objects}
    (folder / "instances.json").write_text(json.dumps(document), encoding="utf-8")


def _digits(part: Part, count: int) -> tuple[NDArray[np.uint8], list[int]]:
    """``count`` digits of all classes, (count, 28, 28, 3), and their classes."""
    source = open_source("digits", part=part)
    assert source.labels is not None
    chosen = np.linspace(0, len(source) - 1, count).astype(np.int64)
    pixels = np.stack([np.asarray(source.read(int(index))) for index in chosen])
    return pixels, [int(source.labels[index]) for index in chosen]
