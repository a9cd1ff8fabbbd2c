"""Which images a run is measured on, and that they are not trained on."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from cacr.config import PretrainSettings
from cacr.data import ArraySource, open_source
from cacr.errors import UserError
from cacr.training.building.held_out import hold_out
from cacr.training.pretrain import pretrain
from cacr.training.settings.described import describe
from cacr.training.settings.resolve import resolve
from tests.conftest import TINY, save_images


def _images(count: int) -> ArraySource:
    pixels = torch.arange(count).view(-1, 1, 1, 1).expand(-1, 3, 8, 8) % 256
    return ArraySource("numbers", pixels.to(torch.uint8), labels=np.arange(count))


def _settings(data: str = "numbers.npz", **values: object) -> PretrainSettings:
    return PretrainSettings(data=data, **values)  # type: ignore[arg-type]


def test_a_twentieth_of_some_thousands_is_held_out_by_the_seed() -> None:
    parts = [hold_out(_images(4000), _settings(seed=seed)) for seed in (0, 0, 1)]
    for part in parts:
        assert part.origin == "split" and len(part.source) == 200 and len(part.training) == 3800
        assert sorted([*part.source.labels, *part.training.labels]) == list(range(4000))
        assert part.source.labels.tolist() == part.indices == part.taken
    assert parts[0].indices == parts[1].indices != parts[2].indices
    assert "200 images" in parts[0].note and "held out from training" in parts[0].note


@pytest.mark.parametrize(
    ("images", "held_out"),
    [
        (1_279, 0),
        (1_280, 64),
        (5_120, 256),
        (8_192, 256),
        (20_000, 625),
        (65_536, 2048),
        (200_000, 2048),
    ],
)
def test_how_many_are_held_out_is_what_the_words_say(images: int, held_out: int) -> None:
    assert len(hold_out(_images(images), _settings()).taken) == held_out
    said = PretrainSettings.model_fields["held_out"].description
    docs = Path(__file__).parents[3] / "docs"
    rules = (docs / "explanation" / "automatic-choices.md").read_text("utf-8")
    measured = (docs / "reference" / "diagnostics.md").read_text("utf-8")
    (row,) = re.findall(r"^\| `held_out` \|.*", rules, re.MULTILINE)
    (longer,) = re.findall(r"^\| no test part, 1,280.*", measured, re.MULTILINE)
    for text in (said, row, longer):
        for number in ("1,280", "twentieth", "256", "a thirty-second", "2,048"):
            assert number in text
    for text in (row, longer):
        assert "8,192" in text


def test_at_most_2048_are_measured() -> None:
    large = hold_out(_images(100_000), _settings())
    assert len(large.source) == 2048 and len(large.training) == 100_000 - 2048
    asked = hold_out(_images(8000), _settings(held_out=3000))
    assert len(asked.training) == 5000 and len(asked.source) == 256
    assert set(asked.indices) < set(asked.taken)


def test_measured_images_do_not_follow_the_order_of_the_data() -> None:
    """Data is often sorted by class; a measured part of what is held out is then of all classes too."""
    for part in (
        hold_out(_images(4000), _settings(held_out=1000)),
        hold_out(_images(4000), _settings()),
        hold_out(_images(300), _settings()),
    ):
        half, whole = part.indices[: len(part.indices) // 2], len(part.training) + len(part.taken)
        assert min(half) < whole / 4 and max(half) > 3 * whole / 4


def test_all_images_are_measured_where_that_is_asked_for(classes: Path) -> None:
    test = open_source(str(classes), part="test")
    for asked, expected in (("all", len(test)), (2, 2), (10**6, len(test))):
        part = hold_out(open_source(str(classes)), _settings(str(classes), measured_images=asked))
        assert part.origin == "test" and len(part.source) == expected
    held = hold_out(_images(4000), _settings(held_out=1000, measured_images="all"))
    assert len(held.source) == len(held.taken) == 1000
    assert len(hold_out(_images(4000), _settings(measured_images="all")).taken) == 200  # as without it
    assert len(hold_out(_images(100), _settings(measured_images="all")).source) == 100


def test_of_few_images_none_is_taken_away() -> None:
    small = hold_out(_images(1200), _settings())
    assert small.origin == "training" and len(small.training) == 1200 and len(small.source) == 256
    assert "training images" in small.note
    with pytest.raises(UserError, match="leaves no images to train on"):
        hold_out(_images(20), _settings(held_out=19))


def test_a_test_part_is_measured_and_all_else_is_trained_on(classes: Path) -> None:
    source = open_source(str(classes))
    part = hold_out(source, _settings(str(classes)))
    assert part.origin == "test" and len(part.source) == 20 and len(part.training) == 40
    again = hold_out(source, _settings(str(classes), held_out=5))
    assert again.origin == "split" and len(again.training) == 35


@pytest.mark.trains
def test_a_resumed_run_keeps_its_division(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "run"
    save_images(data, 24)
    values = {"data": str(data), **TINY, "held_out": 6, "max_steps": 1, "epochs": 3}
    pretrain(values, out)
    stored = json.loads((out / "held_out.json").read_text())
    assert len(stored["images"]) == 6 and stored["from"] == "split"
    outcome = pretrain({"max_steps": 2}, out, resume=True)
    assert outcome.step == 2 and json.loads((out / "held_out.json").read_text()) == stored
    assert json.loads((out / "encoder.json").read_text())["training"]["images"] == 18
    (out / "held_out.json").write_text(json.dumps({**stored, "not_trained_on": [1, 99]}))
    with pytest.raises(UserError, match="names images that"):
        pretrain({"max_steps": 3}, out, resume=True)


def test_a_run_repeated_from_its_resolved_settings_holds_out_the_same() -> None:
    first = hold_out(_images(4000), _settings())
    device = torch.device("cpu")
    resolved = resolve(
        _settings(),
        describe(first.training, held_out=len(first.taken), measured=200),
        world_size=1,
        device=device,
    )
    again = hold_out(_images(4000), resolved)
    assert again.taken == first.taken and again.indices == first.indices


@pytest.mark.parametrize(("trained", "measured", "views", "every"), [(50_000, 1562, 5, 1), (2200, 256, 5, 4)])
def test_diagnostics_are_as_rare_as_they_are_costly(
    trained: int, measured: int, views: int, every: int
) -> None:
    settings = resolve(
        _settings(views=views),
        describe(_images(trained), measured=measured),
        world_size=1,
        device=torch.device("cpu"),
    )
    assert settings.measure_every_epochs == every
    looks = views + 1 + 2  # one as in evaluation, two stronger ones
    share = 0.5 * measured * looks / (trained * views)  # a measured view costs half of a trained one
    assert share / every <= 0.03
    assert every == 1 or share / (every - 1) > 0.03
