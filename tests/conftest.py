"""What tests share: small images, and one trained run."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cacr import cli

Run = Callable[..., tuple[int, str]]
TINY = {
    "encoder": "small_alexnet",
    "width": 0.05,
    "image_size": 32,
    "views": 3,
    "batch_size": 8,
    "preset": "cifar",
    "workers": 0,
}
"""Settings of a run that takes a second."""


def save_images(
    folder: Path, count: int, *, size: int = 40, seed: int = 0, suffix: str = ".png"
) -> list[Path]:
    """Images of coloured noise with a bright disc, each one different."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = np.mgrid[:size, :size]
    paths = []
    for number in range(count):
        pixels = rng.integers(0, 100, (size, size, 3))
        row, column = rng.integers(0, size, 2)
        disc = (rows - row) ** 2 + (columns - column) ** 2 < (size // 4) ** 2
        pixels[disc] += rng.integers(50, 156, 3)
        paths.append(folder / f"image{number:03d}{suffix}")
        Image.fromarray(pixels.astype(np.uint8)).save(paths[-1])
    return paths


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 26 images without labels."""
    folder = tmp_path_factory.mktemp("photos")
    save_images(folder, 26)
    return folder


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image folder with two classes of 20 images in ``train/`` and 10 in ``test/``."""
    folder = tmp_path_factory.mktemp("classes")
    for number, name in enumerate(("apples", "pears")):
        save_images(folder / "train" / name, 20, seed=number)
        save_images(folder / "test" / name, 10, seed=10 + number)
    return folder


@pytest.fixture(scope="session")
def trained(classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two epochs on ``classes``."""
    from cacr.training.pretrain import pretrain

    out = tmp_path_factory.mktemp("runs") / "trained"
    pretrain({"data": str(classes), "epochs": 2, "log_every_steps": 1, **TINY}, out)
    return out


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call the command line; returns exit code and what was printed, on one line."""

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["cacr", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        code = caught.value.code
        return (0 if code is None else int(code)), " ".join((captured.out + captured.err).split())

    return call


def refused(run: Run, arguments: Sequence[object], *parts: str) -> None:
    """Assert that a command ends with exit code 2 and a message that has these parts."""
    code, text = run(*arguments)
    assert code == 2, text
    assert "Traceback" not in text
    for part in parts:
        assert part in text
