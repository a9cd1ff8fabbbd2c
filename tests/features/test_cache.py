"""Features that are kept: read again for the same files and the same encoder, and for nothing else."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cacr.encoders import load_encoder, save_encoder
from cacr.errors import UserError
from cacr.features import cache
from cacr.features.cache import cache_folder
from cacr.features.collection import Collection, open_images
from cacr.features.machine import Machine
from tests.conftest import save_images


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve images are decoded sooner than a process starts."""
    monkeypatch.setattr("cacr.features.collection.choose_machine", lambda sources: Machine())


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    save_images(tmp_path / "photos", 12)
    return tmp_path / "photos"


def _collect(run: Path, photos: Path, **options: object) -> Collection:
    return open_images(run, str(photos)).collect(**options)  # type: ignore[arg-type]


def test_a_second_time_nothing_is_encoded(
    run: Path, photos: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _collect(run, photos)
    assert not first.cached and first.reused == ()
    asked: list[int] = []
    again = _collect(run, photos, progress=lambda done, total: asked.append(done))
    assert again.cached and asked == []
    assert again.reused == ("features of 12 images from the cache",)
    assert torch.equal(first.features, again.features) and np.array_equal(first.index, again.index)
    assert [again.name(n) for n in range(12)] == [first.name(n) for n in range(12)]
    assert not _collect(run, photos, cache=False).cached
    monkeypatch.chdir(photos.parent)  # the same files by other names, which are those that commands print
    assert not _collect(run, Path("photos")).cached and _collect(run, Path("photos")).cached
    assert own_cache.stat().st_mode & 0o077 == 0  # others need not know what is on the photos


def _touched(photos: Path, run: Path) -> None:
    os.utime(photos / "image003.png", ns=(0, 0))


def _replaced(photos: Path, run: Path) -> None:
    time = (photos / "image003.png").stat().st_mtime_ns
    Image.new("RGB", (50, 50)).save(photos / "image003.png")
    os.utime(photos / "image003.png", ns=(time, time))


def _added(photos: Path, run: Path) -> None:
    shutil.copy2(photos / "image003.png", photos / "new.png")


def _renamed(photos: Path, run: Path) -> None:
    (photos / "image003.png").rename(photos / "image003b.png")


def _other_weights(photos: Path, run: Path) -> None:
    encoder = load_encoder(run)
    with torch.no_grad():
        next(encoder.backbone.parameters()).mul_(1.01)
    save_encoder(run, encoder, encoder.info)


def _other_view(photos: Path, run: Path) -> None:
    text = (run / "encoder.json").read_text()
    (run / "encoder.json").write_text(text.replace('"resize": 18', '"resize": 20'))


@pytest.mark.parametrize("change", [_touched, _replaced, _added, _renamed, _other_weights, _other_view])
def test_whatever_changes_features_is_seen(change: object, run: Path, photos: Path) -> None:
    _collect(run, photos)
    change(photos, run)  # type: ignore[operator]
    found = _collect(run, photos)
    assert not found.cached
    assert torch.equal(found.features, _collect(run, photos, cache=False).features)
    assert _collect(run, photos).cached


def _damage(file: Path, kind: str) -> None:
    with np.load(file) as stored:
        parts = dict(stored)
    if kind == "cut short":
        os.truncate(file, 100)
    elif kind == "pickles":
        np.savez(file, **{**parts, "name": np.array([{}] * 12, dtype=object)})
    elif kind == "another shape":
        np.savez(file, **{**parts, "features": parts["features"][:, :3]})
    elif kind == "no numbers":
        np.savez(file, **{**parts, "features": parts["features"] * np.nan})
    elif kind == "numbers of no image":
        np.savez(file, **{**parts, "index": parts["index"] + 5})
    elif kind == "a folder":
        file.unlink()
        file.mkdir()


@pytest.mark.parametrize(
    "kind", ["cut short", "pickles", "another shape", "no numbers", "numbers of no image", "a folder"]
)
def test_a_damaged_file_is_as_good_as_none(kind: str, run: Path, photos: Path, own_cache: Path) -> None:
    wanted = _collect(run, photos).features
    (file,) = own_cache.iterdir()
    _damage(file, kind)
    found = _collect(run, photos)
    assert not found.cached and torch.equal(found.features, wanted)
    assert _collect(run, photos).cached == (kind != "a folder")


def test_a_cache_that_cannot_be_written_is_as_good_as_none(
    run: Path, photos: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache.parent.mkdir(exist_ok=True)
    own_cache.write_text("a file in its place")
    assert len(_collect(run, photos)) == len(_collect(run, photos)) == 12
    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    assert not _collect(run, photos).cached and not _collect(run, photos).cached


def test_images_that_cannot_be_read_are_told_again(run: Path, photos: Path) -> None:
    (photos / "image005.png").write_bytes(b"\x89PNG broken")
    assert _collect(run, photos).unreadable == 1
    again = _collect(run, photos)
    assert again.cached and (again.unreadable, len(again)) == (1, 11) and 5 not in again.index
    with pytest.raises(UserError, match=r"1 of 12 images cannot be read(.|\n)*image005"):
        _collect(run, photos, max_unreadable=0.01)


def test_it_stays_within_its_bound(
    run: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = [tmp_path / name for name in ("a", "b", "c")]
    for number, photos in enumerate(sets):
        save_images(photos, 12, seed=number)
        _collect(run, photos)
        for file in own_cache.iterdir():  # clocks of file systems may be coarse
            os.utime(file, ns=(state := file.stat().st_mtime_ns - 10**9, state))
    size = next(own_cache.iterdir()).stat().st_size
    assert _collect(run, sets[0]).cached  # asked for: the second set is now the one that waited longest
    (own_cache / ".cacr-1.tmp.npz").write_bytes(b"what a killed process left")
    os.utime(own_cache / ".cacr-1.tmp.npz", ns=(0, 0))
    monkeypatch.setattr(cache, "MOST_BYTES", int(3.5 * size))
    save_images(tmp_path / "d", 12, seed=3)
    _collect(run, tmp_path / "d")
    assert len(list(own_cache.iterdir())) == 3
    assert [_collect(run, photos, progress=None).cached for photos in (sets[0], sets[2])] == [True, True]
    assert not _collect(run, sets[1]).cached
    monkeypatch.setattr(cache, "MOST_BYTES", 100)
    save_images(tmp_path / "e", 12, seed=4)
    assert not _collect(run, tmp_path / "e").cached and not _collect(run, tmp_path / "e").cached


def test_it_lies_where_the_system_keeps_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for given, wanted in (
        (str(tmp_path), tmp_path),
        ("relative", tmp_path / "home" / ".cache"),
        ("", tmp_path / "home" / ".cache"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert cache_folder() == wanted / "cacr" / "features"

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None
