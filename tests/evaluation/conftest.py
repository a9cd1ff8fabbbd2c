import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cacr.encoders import build_encoder, save_encoder

CLASSES = ("blue", "green", "red")


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small encoder that nobody trained, to read."""
    folder = tmp_path_factory.mktemp("untrained")
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05)
    info = replace(
        encoder.info,
        resize=18,
        mean=(0.5, 0.4, 0.3),
        std=(0.2, 0.25, 0.3),
        preset="digits",
        training={"images": 30, "views": 5, "steps": 7},
    )
    save_encoder(folder, encoder, info)
    return folder


@pytest.fixture
def run(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a test's own with that encoder: evaluations write into it."""
    return Path(shutil.copytree(untrained, tmp_path_factory.mktemp("run"), dirs_exist_ok=True))


def write_images(folder: Path, per_class: int, seed: int, classes: tuple[str, ...] = CLASSES) -> Path:
    """Noisy images of different sizes, tinted by their class, in a folder for each class."""
    generator = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            height, width = generator.integers(17, 40, 2)
            image = generator.integers(0, 100, (height, width, 3))
            image[:, :, ("red", "green", "blue").index(name)] += 120
            Image.fromarray(image.astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), per_class=15, seed=0)
