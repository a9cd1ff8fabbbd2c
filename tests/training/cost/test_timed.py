"""A run of a given time, on made-up machines."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cacr.config import PretrainSettings
from cacr.errors import SettingsError, UserError
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.training.building.data import describe_images, prepare_data
from cacr.training.building.job import Training
from cacr.training.cost import command_time, fit, timed
from cacr.training.cost.command_time import Command, price
from cacr.training.cost.place import Place
from cacr.training.cost.timed import Timed, fit_time, is_timed, preferred
from cacr.training.dry_run import dry_run
from cacr.training.loop import loop
from cacr.training.pretrain import pretrain
from cacr.training.processes.fabric import Fabric
from cacr.training.processes.launch import Where, launch, make_fabric
from cacr.training.settings.described import Described
from tests.conftest import TINY, refused, resolved
from tests.conftest import Run as RunCommand

SMALL = {**TINY, "batch_size": 8, "held_out": 0}
CPU = Place(1, torch.device("cpu"))


class Machine:
    """Steps of so many seconds, on a clock that only they and reading move."""

    def __init__(self, a_step: float, patch: pytest.MonkeyPatch) -> None:
        self.now, self.a_step, self.measured = 1000.0, a_step, 0
        patch.setattr(timed, "measure_step", self.measure)
        patch.setattr(timed, "reading_seconds", lambda settings, source: 0.0)
        patch.setattr(timed, "slowdown", lambda: 1.0)

    def clock(self) -> float:
        return self.now

    def measure(self, job: Training, seconds: float, clock: Any) -> float:
        self.measured += 1
        self.now += 2 * seconds
        return self.a_step * job.settings.batch_size / 8


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(1.0, monkeypatch)


def _fit(machine: Machine, photos: Path, began: float = 1000.0, **given: Any) -> Timed:
    asked = PretrainSettings(data=str(photos), **{**SMALL, **given})
    fabric, data = make_fabric(Where.of(asked)), prepare_data(asked)
    run = RunFolder(Path("nowhere"))
    return fit_time(fabric, asked, run, data, began=began, observed=False, clock=machine.clock)


def test_the_price_of_a_command_is_the_sum_of_its_parts() -> None:
    """Against a command that does one thing after the other."""
    settings = resolved(first_layer="whitened", views=5, batch_size=100, measure_every_epochs=2)
    command = Command(
        passed=7.0,
        opening=3.0,
        reading=0.001,
        images=5000,
        measured=256,
        per_epoch=50,
        state=6e8,
        slowed=1.0,
        observed=True,
    )
    a_step, steps = 0.5, 1000
    view = a_step / 500
    save = 6e8 / command_time.SAVED_BYTES
    passes = 5 + 2 + 1  # random views, stronger ones, that of evaluation
    look = command_time.LOOK_SECONDS + 256 * passes * 0.5 * view
    seconds = 7.0 + command_time.START_SECONDS + 5 * a_step  # until now, late imports, the announced cost
    seconds += 1024 * 0.001  # the first layer
    seconds += 256 * 0.001 + command_time.FIRST_LOOK * look  # the untrained encoder, and pixels
    since = 0.0
    for step in range(1, steps + 1):
        seconds += a_step
        since += a_step
        if step % 100 == 0:
            seconds += look
        if step % 50 == 0 and since >= loop.AUTO_CHECKPOINT_SECONDS:
            seconds, since = seconds + save, 0.0
    seconds += save + look
    seconds += 3.0 + 4096 * (0.001 + 0.5 * view) + command_time.READER_SECONDS
    seconds += 4000 * (2 * 0.001 + 0.5 * view) + 2.2 + 0.005 * 2000  # the page
    found = price(settings, command, a_step)
    assert found.rest + steps * found.step == pytest.approx(seconds)
    assert found.steps(seconds + 0.1) == steps
    often = price(settings.model_copy(update={"checkpoint_every_steps": 10}), command, a_step)
    assert often.step - found.step == pytest.approx(save / 10 - save / 50)
    bare = price(settings, command._replace(observed=False), a_step)
    assert bare.rest < found.rest and bare.step < found.step
    # A busy machine is slow at what was not measured, too: late imports, a save, two measurements, reader and page.
    busy = price(settings, command._replace(slowed=3.0), a_step)
    own = (
        command_time.START_SECONDS
        + save
        + (command_time.FIRST_LOOK + 1) * command_time.LOOK_SECONDS
        + command_time.READER_SECONDS
        + 12.2
    )
    assert busy.rest - found.rest == pytest.approx(2 * own)


def test_a_busy_machine_is_seen_by_the_time_that_computing_takes() -> None:
    computed = [0.0]

    def computing() -> float:
        computed[0] += 0.01
        return computed[0]

    assert command_time.slowdown(lambda: 4 * computed[0], computing) == pytest.approx(4, rel=0.1)
    assert command_time.slowdown(lambda: 0.5 * computed[0], computing) == 1.0


def test_a_time_becomes_steps_that_are_stored_with_it(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1.0, monkeypatch)
    found = _fit(machine, photos, time="10m").settings
    assert found.time == "10m"
    assert found.max_steps is not None and found.epochs == math.ceil(
        found.max_steps / 4
    )  # 28 images in batches of 8, the last one of 4
    passed = machine.now - 1000
    assert 600 - passed - 30 < found.max_steps <= 600 - passed
    late = _fit(Machine(1.0, monkeypatch), photos, began=900.0, time="10m").settings
    assert (
        late.max_steps is not None and found.max_steps - late.max_steps == 100
    )  # imports had taken 100 seconds


@pytest.mark.parametrize(
    ("a_step", "least", "most"), [(0.01, 50_000, 60_000), (1.0, 500, 600), (30.0, 15, 20)]
)
def test_fast_and_slow_machines_take_the_same_time(
    a_step: float, least: int, most: int, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = _fit(Machine(a_step, monkeypatch), photos, time="10m").settings.max_steps
    assert steps is not None and least < steps < most


def test_what_was_chosen_is_said_with_its_reasons(machine: Machine, photos: Path) -> None:
    (said,) = _fit(machine, photos, time="10m", image_size="auto", width="auto").reasons
    for part in ("time 10m", "steps fit", "a step takes 1 s", "32 px", "width 0.25"):
        assert part in said


def test_a_time_that_is_too_short_is_refused_with_one_that_is_not(machine: Machine, photos: Path) -> None:
    with pytest.raises(UserError, match=r"time 12s is too short for 10 steps .*; use --time 1m or more"):
        _fit(machine, photos, time="12s")


def test_without_a_length_an_hour_is_the_default_and_the_paper_s_epochs_the_most(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = _fit(Machine(30.0, monkeypatch), photos)
    assert slow.settings.time == "1h"
    assert slow.settings.max_steps is not None and 100 < slow.settings.max_steps < 120
    assert "the default on a CPU" in slow.reasons[0]
    fast = _fit(Machine(0.1, monkeypatch), photos)
    assert (fast.settings.time, fast.settings.max_steps, fast.settings.epochs) == (None, None, "auto")
    assert "200 epochs, as in the paper" in fast.reasons[0]
    asked = _fit(Machine(0.1, monkeypatch), photos, time="1h").settings
    assert asked.max_steps is not None and asked.max_steps > 200 * 4  # who asks for an hour gets one


def test_which_runs_follow_a_time() -> None:
    def of(*, on_cpu: bool = True, **given: Any) -> bool:
        return is_timed(PretrainSettings(data="photos", **given), on_cpu=on_cpu)

    assert of() and of(time="30m") and of(time="30m", on_cpu=False) and of(time="30m", recipe="cifar10-cl")
    assert not of(epochs=3) and not of(max_steps=3) and not of(on_cpu=False)
    assert not of(recipe="cifar10-cl")


def test_weights_from_elsewhere_and_views_of_several_sizes_keep_their_encoder() -> None:
    data = Described("photos", 5000, 300, in_memory=False)
    for given in ({"init": "timm"}, {"preset": "multicrop-cacr"}):
        asked = PretrainSettings(data="photos", **given)
        found = preferred(asked, data, CPU)
        assert (found.encoder, found.width, found.image_size) == ("auto", "auto", "auto")
    assert preferred(PretrainSettings(data="photos"), data, CPU).image_size == 64


def test_memory_that_is_short_makes_the_batch_smaller(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = tmp_path / "images.npz"
    np.savez(images, x=np.zeros((600, 64, 64, 3), np.uint8))
    large = {"batch_size": "auto", "width": 1.0, "views": 8, "image_size": 64}
    asked = PretrainSettings(data=str(images), **{**SMALL, **large})
    data = describe_images(asked)
    usual = CPU.resolved(asked, data).batch_size
    half, whole = (CPU.need(CPU.resolved(asked, data, batch_size=n), data).more for n in (usual // 2, usual))
    monkeypatch.setattr(fit, "free_memory", lambda: (half + whole) / 2)
    found = _fit(machine, images, time="10m", **large)
    assert found.settings.batch_size == usual // 2
    assert f"{usual} do not fit into memory" in found.reasons[0]
    assert found.need is not None and found.need.more == half  # counted once, and not refused afterwards
    monkeypatch.setattr(fit, "free_memory", lambda: 1e6)
    with pytest.raises(UserError, match=r"needs about .* are free; no single setting makes it fit"):
        _fit(machine, images, time="10m", **large)
    assert machine.measured == 1


@pytest.mark.trains
def test_a_resumed_run_keeps_its_steps_and_measures_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, out = Machine(60.0, monkeypatch), tmp_path / "run"
    values = {"data": str(photos), **SMALL, "time": "20m"}
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_agreed", lambda fabric, stop, step: step == 2)
        assert pretrain(values, out).status == "interrupted"
    steps = Run.open(out).settings.max_steps
    assert steps is not None and 10 <= steps < 20
    machine.a_step = 0.001
    outcome = pretrain(values, out, resume=True)
    assert (outcome.status, outcome.step, machine.measured) == ("finished", steps, 1)
    assert Run.open(out).settings.max_steps == steps
    with pytest.raises(SettingsError, match=r"time was '20m' .* cannot be changed to '40m'"):
        pretrain({"time": "40m"}, out, resume=True)
    # more epochs replace what was chosen
    assert pretrain({"epochs": 8}, out, resume=True).step == 8 * 4


def _decide(fabric: Fabric, photos: str) -> list[Any]:
    """In each of two processes, of which the second has another clock and another speed."""
    slow = 1.0 + 4.0 * fabric.global_rank
    with pytest.MonkeyPatch.context() as patch:
        machine = Machine(slow, patch)
        machine.now += 50 * fabric.global_rank
        asked = PretrainSettings(data=photos, **{**SMALL, "time": "10m", "devices": 2})
        found = fit_time(
            fabric,
            asked,
            RunFolder(Path("nowhere")),
            replace(prepare_data(asked), opening=0.0),  # the one real time in it
            began=1000.0,
            observed=False,
            clock=machine.clock,
        )
    mine = torch.tensor([float(found.settings.max_steps or 0)])
    everyone = fabric.all_gather(mine)
    assert isinstance(everyone, torch.Tensor)
    return everyone.flatten().tolist()


@pytest.mark.usefixtures("from_server")
def test_the_first_of_several_processes_decides(photos: Path) -> None:
    first, second = launch(_decide, Where("cpu", devices=2), str(photos))
    assert first == second
    assert 500 < first < 600


def test_a_dry_run_measures_for_a_time_only(machine: Machine, photos: Path) -> None:
    lines = "\n".join(dry_run({"data": str(photos), **SMALL, "time": "1000h"}))
    assert machine.measured == 1
    assert "note: time 1000h" in lines and "max_steps: 3" in lines
    lines = "\n".join(dry_run({"data": str(photos), "preset": "cifar"}))
    assert machine.measured == 1
    assert "the number of steps in an hour is measured when the run starts" in lines
    assert "width: 0.25" in lines
    lines = "\n".join(dry_run({"recipe": "cifar10-cacr-k4", "time": "30m"}))
    assert "the number of steps in 30m" in lines


@pytest.mark.parametrize("written", ["0", "-5m", "abc", "1000000h"])
def test_wrong_times_are_refused(written: str, run: RunCommand, photos: Path, tmp_path: Path) -> None:
    refused(
        run,
        ["pretrain", photos, "--out", tmp_path / "run", "--time", written],
        "time must be",
        f"got {written!r}",
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("other", [["--epochs", "3"], ["--set", "max_steps=3"]])
def test_a_time_and_another_length_are_refused(
    other: list[str], run: RunCommand, photos: Path, tmp_path: Path
) -> None:
    refused(
        run,
        ["pretrain", photos, "--out", tmp_path / "run", "--time", "30m", *other],
        "both set the length of the run: give only one of them",
    )
