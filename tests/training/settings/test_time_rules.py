"""What a run of a given time is made of, by a made-up machine."""

import math
from collections.abc import Callable
from typing import Any

import torch

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.training.settings.described import Described
from cacr.training.settings.resolve import resolve
from cacr.training.settings.rules import ENOUGH_STEPS
from cacr.training.settings.time_rules import Candidate, Choice, Price, choose

CHOSEN = ("encoder", "width", "image_size", "views", "batch_size")
PHOTOS = Described("photos", 5000, 300, in_memory=False, held_out=256, measured=256)


class Machine:
    """Takes ``speed`` seconds for a million pixels of views at full width, and ``rest`` for everything else."""

    def __init__(self, usual: ResolvedSettings, speed: float, rest: float = 20.0) -> None:
        self._usual, self._speed, self._rest = usual, speed, rest
        self.asked: list[Candidate] = []

    def cost(self, candidate: Candidate) -> Price:
        self.asked.append(candidate)
        of = {name: candidate.get(name, getattr(self._usual, name)) for name in CHOSEN}
        pixels = of["image_size"] ** 2 * of["views"] * of["batch_size"]
        return Price(self._speed * pixels / 1e6 * of["width"], self._rest)


def _choose(
    budget: float,
    speed: float,
    *,
    data: Described = PHOTOS,
    fits: Callable[[Candidate], bool] = lambda candidate: True,
    on_cpu: bool = True,
    **given: Any,
) -> tuple[Choice, Machine]:
    asked = PretrainSettings(data="photos", **given)
    usual = resolve(asked, data, world_size=1, device=torch.device("cpu"))
    machine = Machine(usual, speed)
    free = {name for name in CHOSEN if getattr(asked, name) == "auto"}
    choice = choose(data, usual, free, budget, machine.cost, fits, on_cpu=on_cpu)
    assert choice is not None
    return choice, machine


def test_steps_are_those_that_fit_beside_the_rest() -> None:
    assert Price(0.5, 20.0).steps(120) == 200
    assert Price(0.5, 20.0).steps(120.4) == 200
    assert Price(0.5, 20.0).steps(19) == 0


def test_a_fast_machine_gets_the_largest_views_and_measures_nothing_else() -> None:
    choice, machine = _choose(1800, speed=0.1)
    assert choice.settings == {
        "encoder": "small_alexnet",
        "width": 0.25,
        "image_size": 64,
        "views": 5,
        "batch_size": 128,
    }
    assert machine.asked == [choice.settings]
    assert choice.price.steps(1800) >= ENOUGH_STEPS
    assert any("64 px" in reason for reason in choice.reasons)


def test_a_slow_machine_gets_smaller_views_until_there_are_enough_steps() -> None:
    # 640 views of 48 px at quarter width: 0.369 x speed seconds; of 64 px 0.655 x speed.
    speed = (1800 - 20) / ENOUGH_STEPS / 0.5
    choice, machine = _choose(1800, speed)
    assert choice.settings["image_size"] == 48
    assert [asked["image_size"] for asked in machine.asked] == [64, 48]


def test_a_very_slow_machine_gets_the_smallest_however_few_steps_fit() -> None:
    choice, machine = _choose(1800, speed=1000)
    assert choice.settings["image_size"] == 32
    assert choice.price.steps(1800) == math.floor(1780 / (1000 * 32**2 * 640 / 1e6 * 0.25)) < ENOUGH_STEPS
    assert len(machine.asked) == 3  # the last one is the one that was chosen
    assert machine.asked[-1] == choice.settings


def test_views_are_not_larger_than_the_images() -> None:
    small = PHOTOS._replace(side=50)
    assert _choose(1800, 0.1, data=small)[0].settings["image_size"] == 48
    assert _choose(1800, 0.1, data=small._replace(side=20))[0].settings["image_size"] == 32


def test_from_two_hours_on_the_encoder_has_its_full_width() -> None:
    assert _choose(7199, 0.1)[0].settings["width"] == 0.25
    assert _choose(7200, 0.1)[0].settings["width"] == 1.0


def test_few_images_make_a_small_batch() -> None:
    assert _choose(1800, 0.1, data=PHOTOS._replace(images=40, measured=40))[0].settings["batch_size"] == 40


def test_what_is_given_stays() -> None:
    given = {"encoder": "resnet18", "image_size": 128, "views": 3, "batch_size": 16}
    choice, machine = _choose(1800, speed=1000, **given)
    assert set(choice.settings) == {"width"}
    assert choice.settings["width"] == 1.0  # of small_alexnet alone
    assert len(machine.asked) == 1
    own, _ = _choose(1800, 0.1, width=0.5)
    assert "width" not in own.settings
    assert own.settings["image_size"] == 64


def test_a_given_size_decides_the_encoder_as_without_a_time() -> None:
    assert _choose(1800, 0.1, image_size=128)[0].settings["encoder"] == "resnet18"
    assert _choose(1800, 0.1, image_size=48)[0].settings["encoder"] == "small_alexnet"


def test_a_transformer_gets_sizes_that_its_patches_divide() -> None:
    data = PHOTOS._replace(side=50)
    choice, _ = _choose(
        1800, 0.1, data=data, encoder="vit_tiny_patch16_224", image_size="auto", preset="cifar"
    )
    assert choice.settings["image_size"] == 48
    data = PHOTOS._replace(side=300)
    wide, _ = _choose(1800, 0.1, data=data, encoder="vit_tiny_patch16_224", preset="cifar")
    assert wide.settings["image_size"] == 64


def test_what_does_not_fit_into_memory_gets_a_smaller_batch_then_smaller_views() -> None:
    def fits(candidate: Candidate) -> bool:
        return candidate.get("batch_size", 128) * candidate["image_size"] ** 2 <= 64 * 64**2

    halved, _ = _choose(1800, 0.1, fits=fits)
    assert (halved.settings["batch_size"], halved.settings["image_size"]) == (64, 64)
    assert any("memory" in reason for reason in halved.reasons)
    smaller, machine = _choose(1800, 0.1, fits=fits, batch_size=128)
    assert smaller.settings["image_size"] == 32
    assert [asked["image_size"] for asked in machine.asked] == [
        32
    ]  # what does not fit is not measured either


def test_where_nothing_fits_nothing_is_chosen_or_measured() -> None:
    usual = resolve(PretrainSettings(data="photos"), PHOTOS, world_size=1, device=torch.device("cpu"))
    machine = Machine(usual, speed=0.1)
    assert choose(PHOTOS, usual, CHOSEN, 1800, machine.cost, lambda candidate: False, on_cpu=True) is None
    assert machine.asked == []


def test_on_a_gpu_everything_is_as_usual() -> None:
    choice, machine = _choose(1800, 0.1, on_cpu=False)
    assert choice.settings == {}
    assert machine.asked == [{}]
