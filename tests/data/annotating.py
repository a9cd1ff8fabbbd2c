"""Small sets of drawn shapes in the formats of COCO and Pascal VOC."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SHAPES = ("disc", "square")


def drawn(
    seed: int, size: int = 64, most: int = 2
) -> tuple[Image.Image, list[tuple[str, list[int], np.ndarray]]]:
    """A noisy image with bright discs and squares that do not touch: name, box (x, y, w, h) and mask of each."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 60, (size, size, 3))
    rows, columns = np.mgrid[:size, :size]
    taken, shapes = np.zeros((size, size), dtype=bool), []
    for _ in range(20):
        side = int(rng.integers(size // 4, size // 2))
        x, y = (int(rng.integers(0, size - side + 1)) for _ in range(2))
        kind = SHAPES[int(rng.integers(2))]
        mask = (rows >= y) & (rows < y + side) & (columns >= x) & (columns < x + side)
        if kind == "disc":
            middle = (side - 1) / 2
            mask = (rows - y - middle) ** 2 + (columns - x - middle) ** 2 <= (side / 2) ** 2
        if len(shapes) == most or taken[max(0, y - 2) : y + side + 2, max(0, x - 2) : x + side + 2].any():
            continue
        taken |= mask
        pixels[mask] = (230, 60, 60) if kind == "disc" else (60, 60, 230)
        shapes.append((kind, [x, y, side, side], mask))
    return Image.fromarray(pixels.astype(np.uint8)), shapes


def runs_of(mask: np.ndarray) -> list[int]:
    """Lengths of runs down the columns, the first outside of the mask."""
    flat = mask.T.ravel().astype(int)
    ends = np.flatnonzero(np.diff(flat, prepend=flat[:1])).tolist()
    lengths = np.diff([0, *ends, len(flat)]).tolist()
    return [0, *lengths] if flat[0] else lengths


def coco_set(folder: Path, images: int, *, seed: int = 0, size: int = 64, masks: bool = True) -> Path:
    """Drawn shapes in COCO's format: images/ and instances.json."""
    (folder / "images").mkdir(parents=True)
    listed, annotations = [], []
    for number in range(images):
        image, shapes = drawn(1000 * seed + number, size)
        image.save(folder / "images" / f"{number:03}.png")
        listed.append({"id": number, "file_name": f"{number:03}.png", "width": size, "height": size})
        for kind, box, mask in shapes:
            annotation = marked(number, 1 + SHAPES.index(kind), box, id=len(annotations) + 1)
            if masks:
                annotation["segmentation"] = {"size": [size, size], "counts": runs_of(mask)}
            annotations.append(annotation)
    write_instances(folder, listed, annotations)
    return folder


def marked(image: int, category: int, box: Sequence[float], **more: Any) -> dict[str, Any]:
    """An annotation; pycocotools takes the id 0 for none."""
    return {"image_id": image, "category_id": category, "bbox": list(box), "iscrowd": 0, **more}


def write_instances(folder: Path, images: list[Any], annotations: list[Any], **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    categories = [{"id": number + 1, "name": name} for number, name in enumerate(SHAPES)]
    document = {"images": images, "categories": categories, "annotations": annotations, **more}
    (folder / "instances.json").write_text(json.dumps(document))
    return folder / "instances.json"


def voc_object(name: str, box: Sequence[float], *, difficult: int = 0) -> str:
    sides = "".join(f"<{s}>{v}</{s}>" for s, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    return f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox>{sides}</bndbox></object>"


def voc_image(folder: Path, name: str, objects: Sequence[str], *, size: tuple[int, int] = (40, 30)) -> None:
    """One image (width, height) with its annotation."""
    for part in ("JPEGImages", "Annotations"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (90, 20, 20)).save(folder / "JPEGImages" / f"{name}.jpg")
    shape = f"<size><width>{size[0]}</width><height>{size[1]}</height></size>"
    text = f"<annotation>{shape}{''.join(objects)}</annotation>"
    (folder / "Annotations" / f"{name}.xml").write_text(text)


def voc_list(folder: Path, name: str, images: Sequence[str]) -> None:
    (folder / "ImageSets" / "Main").mkdir(parents=True, exist_ok=True)
    (folder / "ImageSets" / "Main" / f"{name}.txt").write_text("\n".join(images) + "\n")
