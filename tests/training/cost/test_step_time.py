"""How long a step takes, by a clock that the test turns."""

from pathlib import Path

import pytest
import torch

from cacr.config import PretrainSettings
from cacr.runs.folder import RunFolder
from cacr.training.building.build import build_training
from cacr.training.building.data import prepare_data
from cacr.training.cost import step_time
from cacr.training.cost.step_time import PATIENCE, _Watch, measure_step
from cacr.training.processes.launch import Where, make_fabric
from cacr.training.settings.resolve import resolve
from tests.conftest import TINY


def _timed(durations: list[float], *, seconds: float, ahead: int = 0, burst: int = 1) -> tuple[float, int]:
    """Seconds of a step, and how many steps were made, when they take so long in turn, the last one for ever."""
    now = [100.0]
    watch, made = _Watch(seconds, ahead, lambda: now[0], burst), 0
    while True:
        now[0] += durations[min(made, len(durations) - 1)]
        made += 1
        if watch.step():
            now[0] += 1000  # what happens afterwards is no step
            return watch.seconds_per_step(), made


def test_the_first_step_does_not_count() -> None:
    a_step, made = _timed([3.0, 0.5], seconds=4)
    assert a_step == pytest.approx(0.5)
    assert made == 1 + 1 + 8  # two to warm up


def test_a_measurement_lasts_its_seconds_and_some_steps() -> None:
    assert _timed([0.1], seconds=2)[1] >= 20
    assert _timed([1.5], seconds=1)[1] >= 3


def test_steps_while_workers_work_ahead_do_not_count() -> None:
    a_step, _ = _timed([0.4] * 8 + [0.2], seconds=4, ahead=8)
    assert a_step == pytest.approx(0.2, rel=0.06)  # one of them may


def test_but_no_longer_than_a_measurement_lasts() -> None:
    a_step, made = _timed([1.0], seconds=4, ahead=1000)
    assert (a_step, made) == (pytest.approx(1.0), 8)


def test_a_single_step_of_a_very_slow_machine_is_enough() -> None:
    assert _timed([60.0], seconds=4) == (60.0, 1)
    a_step, made = _timed([5.0], seconds=4)
    assert a_step == pytest.approx(5.0)
    assert 5.0 * made <= PATIENCE * 4 + 5.0


def test_a_disturbance_of_a_second_does_not_count() -> None:
    """A mean over twelve steps would be 12 % too long."""
    a_step, _ = _timed([1.0] * 6 + [1.7, 1.7] + [1.0] * 20, seconds=12)
    assert a_step == pytest.approx(1.0)


def test_steps_that_come_in_bursts_are_taken_together() -> None:
    """Three quick steps and a long wait: four workers that cannot keep up, a second per step."""
    a_step, _ = _timed([0.1, 0.1, 0.1, 3.7] * 10, seconds=20, ahead=3, burst=4)
    assert a_step == pytest.approx(1.0)


def test_one_very_slow_step_ends_the_warm_up_and_counts() -> None:
    """Twenty quick steps and one of a minute: nothing is known of what follows, so all of them are averaged."""
    assert _timed([0.1] * 20 + [60.0], seconds=4, ahead=1000) == (pytest.approx(62 / 21), 21)


@pytest.mark.trains
@pytest.mark.parametrize("accumulate", [1, 2])
def test_real_steps_are_timed_and_the_model_is_thrown_away(
    accumulate: int, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = PretrainSettings(data=str(photos), **{**TINY, "accumulate": accumulate, "epochs": 1000})
    fabric, data = make_fabric(Where.of(asked)), prepare_data(asked)
    settings = resolve(asked, data.described, world_size=1, device=fabric.device)
    job = build_training(fabric, settings, RunFolder(tmp_path / "run"), data.training, new=False)
    now, images = [0.0], []
    take_step = step_time.take_step

    def step(job, position, group, meter):  # type: ignore[no-untyped-def]
        now[0] += 0.25
        images.append(sum(len(batch) for batch in group))
        return take_step(job, position, group, meter)

    monkeypatch.setattr(step_time, "take_step", step)
    before = [p.detach().clone() for p in job.method.parameters()]
    assert measure_step(job, 2.0, lambda: now[0]) == pytest.approx(0.25)
    assert len(images) == 2 + 8
    assert max(images) == 8 * accumulate
    assert any(not torch.equal(a, b) for a, b in zip(before, job.method.parameters(), strict=True))
    assert not (tmp_path / "run").exists()
