"""What a person sees while a run trains, by a clock that the test moves."""

import io
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cacr.cli import app
from cacr.training.loop.pace import MEMORY_SECONDS, MEMORY_STEPS, Pace
from cacr.training.loop.progress import PLAIN_SECONDS, TrainingProgress
from tests.conftest import TINY


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def paced(durations: Sequence[float], clock: Clock, pace: Pace | None = None) -> Pace:
    pace = pace or Pace(clock)
    for duration in durations:
        clock.now += duration
        pace.step(8)
    return pace


def test_the_pace_is_a_weighted_mean_of_the_steps() -> None:
    durations = [0.5, 2.0, 30.0, 0.1, 0.1, 7.0]
    kept = [math.exp(-min(d / MEMORY_SECONDS, 1 / MEMORY_STEPS)) for d in durations]
    weights = [math.prod(kept[n + 1 :]) for n in range(len(durations))]
    seconds = sum(w * d for w, d in zip(weights, durations, strict=True))
    pace = paced(durations, Clock())
    assert pace.seconds_per_step == pytest.approx(seconds / sum(weights))
    assert pace.images_per_second == pytest.approx(8 * sum(weights) / seconds)


def test_the_first_step_is_enough() -> None:
    pace = paced([4.0], Clock())
    assert pace.left(10) == pytest.approx(40) and pace.images_per_second == pytest.approx(2)


@pytest.mark.parametrize(("before", "after"), [(0.1, 0.3), (0.3, 0.1), (2.0, 6.0), (6.0, 2.0)])
def test_the_time_left_follows_a_machine_that_becomes_busy_or_idle(before: float, after: float) -> None:
    clock = Clock()
    pace = paced([before] * 200, clock)
    assert pace.left(100) == pytest.approx(100 * before)
    changed = clock.now
    while clock.now < changed + max(15, 9 * after):
        paced([after], clock, pace)
    assert pace.left(100) == pytest.approx(100 * after, rel=0.2)


def test_one_step_that_was_held_up_is_soon_forgotten() -> None:
    clock = Clock()
    pace = paced([0.1] * 200, clock)
    paced([60.0], clock, pace)
    assert pace.left(100) < 100 * 5
    paced([0.1] * 250, clock, pace)
    assert pace.left(100) == pytest.approx(10, rel=0.2)


def test_what_lies_between_steps_counts_by_its_mean() -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now += 50  # before the first step, which does not come again
    pace.skip()
    for _ in range(10):
        paced([0.2] * 10, clock, pace)
        clock.now += 5
        pace.skip()
    assert pace.seconds_per_step == pytest.approx(0.2)
    assert pace.left(100) == pytest.approx(100 * 0.2 + 10 * 5)


def progress_on(console: Console, clock: Clock, total: int = 1000) -> TrainingProgress:
    return TrainingProgress(
        console, epochs=200, total_steps=total, step=360, epoch=72, enabled=True, clock=clock
    )


@pytest.mark.parametrize("step_seconds", [0.1, 3.0, 11.0, 20.0, 29.0])
def test_piped_lines_come_from_the_first_step_on_and_every_half_minute(step_seconds: float) -> None:
    clock, out = Clock(), io.StringIO()
    progress = progress_on(Console(file=out, width=80), clock, total=10_000)
    started, times = clock.now, []
    for step in range(361, 361 + round(600 / step_seconds)):
        clock.now += step_seconds
        progress.pace.step(64)
        before = len(out.getvalue())
        progress.update(step=step, epoch=73, loss=0.5)
        if len(out.getvalue()) > before:
            times.append(clock.now)
    assert times[0] == started + step_seconds
    gaps = [b - a for a, b in pairwise(times)]
    assert max(gaps) <= PLAIN_SECONDS + 1e-6 and min(gaps) > PLAIN_SECONDS / 2
    first = out.getvalue().splitlines()[0]
    assert first.startswith("epoch 73/200  step 361/10000  loss 0.5000  ") and first.endswith(" left")
    assert f"{64 / step_seconds:,.0f} images/s" in first


def test_a_step_longer_than_half_a_minute_has_a_line_of_its_own() -> None:
    clock, out = Clock(), io.StringIO()
    progress = progress_on(Console(file=out, width=80), clock)
    for step in range(361, 366):
        clock.now += 45
        progress.pace.step(64)
        assert progress.due
        progress.update(step=step, epoch=73, loss=0.5)
    assert len(out.getvalue().splitlines()) == 5


def test_the_last_line_says_how_long_it_took() -> None:
    clock, out = Clock(), io.StringIO()
    progress = progress_on(Console(file=out, width=80), clock, total=362)
    for step in (361, 362):
        clock.now += 2
        progress.pace.step(64)
        progress.update(step=step, epoch=73, loss=0.5, seen="rank 9" if step == 362 else None)
    assert out.getvalue().splitlines()[-1].endswith("loss 0.5000  rank 9  32 images/s  done in 4 s")


@pytest.mark.parametrize("width", [60, 80, 99, 100, 120, 200])
def test_a_terminal_shows_all_figures_whole_after_one_step(width: int) -> None:
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system=None)
    with progress_on(console, clock) as progress:
        assert progress.due
        clock.now += 5
        progress.pace.step(61_725)
        progress.update(step=361, epoch=73, loss=-0.13164, seen="rank 128  kNN 11.3 %")
        assert not progress.due
        clock.now += 1
        assert progress.due
    lines = [line for line in re.split(r"[\r\n]|\x1b\[[?0-9]*[A-Za-z]", out.getvalue()) if line.strip()]
    assert "epoch 73/200" in lines[0] and "36%" in lines[0] and "starting" in lines[0]
    seen = "  rank 128  kNN 11.3 %" if width >= 100 else ""
    speed = "  12,345 images/s" if width >= 80 else ""
    assert lines[-1].rstrip().endswith(f" 36%  loss -0.1316{seen}{speed}  53 min 15 s left")
    assert lines[-1].startswith("epoch 73/200 ") and len(lines[-1]) <= width


def test_other_processes_show_nothing() -> None:
    out = io.StringIO()
    progress = TrainingProgress(
        Console(file=out), epochs=1, total_steps=9, step=0, epoch=0, enabled=False, clock=Clock()
    )
    progress.begin("measuring")
    progress.tell("a line")
    progress.pace.step(1)
    assert not progress.due
    progress.update(step=9, epoch=1, loss=0.0)
    assert out.getvalue() == ""


@pytest.mark.trains
def test_epochs_are_counted_through_a_resume(photos: Path, tmp_path: Path) -> None:
    """28 images in batches of 8 are four steps an epoch, or two where a step takes three batches at most."""
    for accumulate, lines in (
        (1, ("2/2  step 5/5", "2/3  step 6/9")),
        (3, ("3/3  step 5/5", "3/5  step 6/9")),
    ):
        out = tmp_path / str(accumulate)
        settings = {**TINY, "epochs": 10, "max_steps": 5, "accumulate": accumulate}
        flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        begun = CliRunner().invoke(app, ["pretrain", str(photos), "--out", str(out), *flags])
        more = CliRunner().invoke(app, ["pretrain", "--out", str(out), "--resume", "--set", "max_steps=9"])
        assert f"\nepoch 1/{lines[0][2]}  step 1/5  loss " in begun.output, begun.output
        assert f"\nepoch {lines[0]}  loss " in begun.output
        assert f"\nepoch {lines[1]}  loss " in more.output, more.output
        assert "resumed    at step 5" in more.output
