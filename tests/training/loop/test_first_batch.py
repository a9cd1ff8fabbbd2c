"""`cacr views` draws what the training loop makes of the same images."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cacr.commands.draw_views import draw_sheet
from cacr.data import ArraySource
from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.reading import memory
from cacr.reading.settings import read_settings_file
from cacr.runs.run import Run
from cacr.training.building.build import preset_of
from cacr.training.loop import inputs
from cacr.training.loop.first_batch import first_batch
from cacr.training.pretrain import pretrain
from cacr.views import contact_sheet
from tests.conftest import TINY, resolved, save_images
from tests.views.images import photos

SHORT = {name: TINY[name] for name in ("encoder", "width", "views", "precision")} | {"max_steps": 1}
"""Size, preset and batch are left to ``auto``."""

IMAGES = 5


def _save(folder: Path, *, grey: bool) -> str:
    """Images of different sizes, which stay files."""
    for number, path in enumerate(save_images(folder, 20, size=70)):
        image = Image.open(path).crop((0, 0, 70, 50 + number))
        (image.convert("L") if grey else image).save(path)
    return str(folder)


def _arrays(folder: Path) -> str:
    folder.mkdir()
    np.savez(folder / "arrays.npz", x=photos(30, 40, 36).permute(0, 2, 3, 1).numpy())
    return str(folder / "arrays.npz")


CASES: dict[str, dict[str, Any]] = {
    "files": {},
    "grey files": {"upright": False, "workers": 2},
    "arrays": {"upright": False, "image_size": 24, "seed": 3},
    "arrays and a recipe": {"recipe": "cifar10-cacr-k1", "batch_size": 9, "blur": 0.5, "blur_kernel": 3},
    "multi-crop": {
        "preset": "multicrop-cacr",
        "encoder": "resnet18",
        "width": 1.0,
        "image_size": 32,
        "batch_size": 5,
    },
}


@pytest.mark.trains
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.slow] * (name == "multi-crop")) for name in CASES]
)
def test_the_sheet_is_what_the_loop_sees(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    data = _arrays(folder) if "arrays" in case else _save(folder, grey="grey" in case)
    values = {"data": data, **SHORT, **CASES[case]}
    seen: list[tuple[list[int], list[torch.Tensor]]] = []
    make_views = inputs.make_views

    def remember(views: Any, batch: Any, *place: int) -> list[torch.Tensor]:
        made = make_views(views, batch, *place)
        seen.append((batch.index.tolist(), [run.clone() for run in made]))
        return made

    monkeypatch.setattr(inputs, "make_views", remember)
    pretrain(values, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    settings = run.settings
    index, made = seen[0]

    # by hand: the loop's own views beside the images of the same numbers
    paths = sorted(folder.glob("*.png"))
    if paths:
        originals = [Image.open(paths[number]).convert("RGB") for number in index[:IMAGES]]
    else:
        originals = [Image.fromarray(np.load(data)["x"][number]) for number in index[:IMAGES]]
    preset = preset_of(settings)
    expected = contact_sheet(originals, [part[:, :IMAGES] for part in made], preset.mean, preset.std)

    draw_sheet(values, tmp_path / "asked.png", images=IMAGES)
    draw_sheet(read_settings_file(tmp_path / "run" / "config.yaml"), tmp_path / "stored.png", images=IMAGES)
    for name in ("asked.png", "stored.png"):
        drawn = np.asarray(Image.open(tmp_path / name)).astype(int)
        assert np.abs(drawn - np.asarray(expected)).max() <= 1
    draw_sheet({**values, "seed": 8}, tmp_path / "other.png", images=IMAGES)
    other = np.asarray(Image.open(tmp_path / "other.png")).astype(int)
    assert np.abs(other - np.asarray(expected)).mean() > 5

    assert load_encoder(tmp_path / "run").info.upright == ("upright" not in CASES[case])
    assert (settings.view_options.get("hue") == 0) == ("grey" in case)


def test_a_process_of_several_shows_its_share() -> None:
    """What the first of two processes sees are the images of the first half of the batch."""
    source = ArraySource("arrays", photos(40, 32, 32))
    settings = resolved(batch_size=12, views=2, preset="cifar")
    halves = first_batch(settings, source, images=12, world_size=2)
    whole = first_batch(settings, source, images=12, world_size=1)
    assert len(halves.images) == 6 and halves.views[0].shape[:2] == (2, 6)
    for half, one in zip(halves.images, whole.images, strict=False):
        assert np.array_equal(np.asarray(half), np.asarray(one))


def test_a_batch_that_memory_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 1e6)
    with pytest.raises(UserError, match="a batch of 1,000 images in 2 views needs"):
        first_batch(
            resolved(batch_size=1000, views=2),
            ArraySource("arrays", photos(1000, 8, 8)),
            images=1,
            world_size=1,
        )
