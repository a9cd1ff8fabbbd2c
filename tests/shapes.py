"""Made-up pairs: coloured shapes with their names as captions, a test part with other draws of all of them."""

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 230), "yellow": (240, 220, 40)}
SHAPES = ("disc", "ring", "bar")
NAMES = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)
SIZE = 32


def draw_shape(name: str, rng: np.random.Generator) -> Image.Image:
    """A shape on grey noise, at a random place and of a random size."""
    colour, shape = name.split()
    image = Image.fromarray(rng.integers(90, 140, (SIZE, SIZE, 3)).astype(np.uint8))
    radius = int(rng.integers(9, 12))
    x, y = (int(rng.integers(radius, SIZE - radius)) for _ in range(2))
    box = (x - radius, y - radius, x + radius, y + radius)
    draw, fill = ImageDraw.Draw(image), COLOURS[colour]
    if shape == "disc":
        draw.ellipse(box, fill=fill)
    elif shape == "ring":
        draw.ellipse(box, outline=fill, width=3)
    else:
        draw.rectangle((x - radius, y - 3, x + radius, y + 3), fill=fill)
    return image


def save_shapes(folder: Path, *, train: int = 24, test: int = 3) -> None:
    """``train.jsonl`` and ``test.jsonl`` with so many images of each name, and ``sorted/`` by class for zero-shot."""
    for part, count in (("train", train), ("test", test)):
        rng = np.random.default_rng(len(part))
        lines = []
        for name in NAMES * count:
            place = folder / part / f"{len(lines):04d}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            image = draw_shape(name, rng)
            image.save(place)
            lines.append({"image": f"{part}/{place.name}", "captions": [f"a {name}", f"this is a {name}"]})
            if part == "test":
                classed = folder / "sorted" / name.replace(" ", "_") / place.name
                classed.parent.mkdir(parents=True, exist_ok=True)
                image.save(classed)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{part}.jsonl").write_text(text)
