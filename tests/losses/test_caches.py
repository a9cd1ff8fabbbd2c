"""Blocks that fit the caches which the system describes."""

from pathlib import Path

import pytest

from cacr.losses.engine.caches import LEAST, MOST, block_bytes, block_shape

KB, MB = 1 << 10, 1 << 20


def caches(folder: Path, *rows: tuple[str, str, str]) -> str:
    """A folder as Linux has it, of caches (level, size, cores that share it)."""
    for number, values in enumerate(rows):
        cache = folder / f"index{number}"
        cache.mkdir()
        for name, value in zip(("level", "size", "shared_cpu_list"), values, strict=True):
            (cache / name).write_text(value + "\n")
    return str(folder)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("1", "32K", "0"), ("2", "1024K", "0"), ("3", "32768K", "0-1")], MOST),
        ([("1", "48K", "0"), ("2", "2M", "0"), ("3", "16M", "0-7")], 1 * MB),  # (2 + 2) / 3 = 1.3 MB
        (
            [("2", "256K", "0,4"), ("3", "6144K", "0-3,4-7")],
            512 * KB,
        ),  # (128 + 768) / 3 KB is less than the least
        ([("2", "3072K", "0")], 1 * MB),
        ([("1", "64M", "0"), ("2", "12K", "0")], LEAST),  # the first level is left out
    ],
)
def test_a_block_fits_three_times(tmp_path: Path, rows: list[tuple[str, str, str]], expected: int) -> None:
    assert block_bytes(caches(tmp_path, *rows)) == expected


@pytest.mark.parametrize(
    "rows", [[], [("2", "", "0")], [("two", "1M", "0")], [("2", "1M", "x")], [("1", "32K", "0")]]
)
def test_what_the_system_does_not_say_is_not_guessed(
    tmp_path: Path, rows: list[tuple[str, str, str]]
) -> None:
    assert block_bytes(caches(tmp_path, *rows)) == MOST
    assert block_bytes(str(tmp_path / "missing")) == MOST


@pytest.mark.parametrize(("size", "shape"), [(LEAST, (256, 512)), (1 * MB, (512, 512)), (MOST, (512, 1024))])
def test_a_block_has_the_bytes_it_is_given(size: int, shape: tuple[int, int]) -> None:
    assert block_shape(size) == shape
    assert 4 * shape[0] * shape[1] == size
