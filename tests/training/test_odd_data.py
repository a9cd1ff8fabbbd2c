"""Data that can be read and not be trained on, or only just."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import TINY, Run, refused, save_images

SETTINGS = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]


@pytest.mark.trains
def test_numbers_of_classes_may_have_gaps_of_any_size(run: Run, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 20, 20, 3), dtype=np.uint8)
    np.savez(tmp_path / "gaps.npz", x=pixels, y=np.arange(12) % 3 * 10**9)
    code, text = run("pretrain", tmp_path / "gaps.npz", "--out", tmp_path / "run", "--epochs", 1, *SETTINGS)
    assert code == 0, text
    assert "2000000000" in (tmp_path / "run" / "report.html").read_text()


def test_shards_without_a_readable_image_are_refused(run: Run, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as shard:
        for number in range(12):
            member = tarfile.TarInfo(f"{number}.jpg")
            shard.addfile(member, io.BytesIO(b""))
    refused(
        run, ["pretrain", f"wds:{tmp_path}/a.tar", "--out", tmp_path / "run", *SETTINGS], "no readable image"
    )


def test_one_image_is_too_few_whatever_the_batch(run: Run, tmp_path: Path) -> None:
    save_images(tmp_path / "one", 1)
    out = ["--out", tmp_path / "run", "--set", "workers=0"]
    refused(run, ["pretrain", tmp_path / "one", *out], "training needs at least two")


def test_the_size_of_views_is_image_size(run: Run, photos: Path, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "run", *SETTINGS]
    refused(run, ["pretrain", photos, *out, "--set", "size=64"], "there is no setting 'size'", "image_size")
