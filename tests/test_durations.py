"""Lengths of time as people write them."""

import pytest

from cacr.durations import MOST_SECONDS, in_short, seconds_of, short_time


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("30min", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1h 30m 5s", 5405),
        ("1.5H", 5400),
        ("8760h", MOST_SECONDS),
    ],
)
def test_a_time_is_read(written: str, seconds: int) -> None:
    assert seconds_of(written) == seconds
    assert seconds_of(short_time(seconds)) == seconds


@pytest.mark.parametrize(
    "written", ["abc", "-5m", "30", "", " ", "m", "30m1h", "1h1h", "nan h", "٣m", "1e3s", 30, None]
)
def test_what_is_no_time_is_told_how_one_is_written(written: object) -> None:
    with pytest.raises(ValueError, match="such as 90s, 30m, 2h or 1h30m"):
        seconds_of(written)


@pytest.mark.parametrize("written", ["0s", "0h0m", "0.4s", "1000000h", "8760h1s"])
def test_times_that_no_run_can_take_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="at least one second and at most 8,760h"):
        seconds_of(written)


def test_equal_times_have_one_spelling() -> None:
    assert {in_short(text) for text in ("90m", "1h30m", "1.5h", "5400s")} == {"1h30m"}
    assert in_short("61s") == "1m1s"
