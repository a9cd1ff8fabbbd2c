"""Tar shards: streamed, shared out, resumed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cacr.data import Batch, Loader, MissingPartError, StreamSource, inspect_source, open_source
from cacr.data.stream import read_ahead, shuffled
from cacr.errors import UserError
from tests.data.making import encoded, noisy_crop, plain_crop, write_shard

pytest.importorskip("webdataset")


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Four shards of 5, 6, 7 and 8 images, numbered through, each with a class."""
    number = 0
    for shard in range(4):
        files = {}
        for _ in range(5 + shard):
            files[f"{number:03}.png"] = encoded(number)
            files[f"{number:03}.cls"] = str(number % 3).encode()
            number += 1
        write_shard(tmp_path / f"train-{shard}.tar", files)
    return tmp_path


@pytest.fixture
def source(shards: Path) -> StreamSource:
    opened = open_source(f"wds:{shards}/train-{{0..3}}.tar")
    assert isinstance(opened, StreamSource)
    return opened


def shown(batch: Batch) -> list[int]:
    return batch.images[0][0, :, 0, 0, 0].tolist()


def test_images_are_numbered_through_all_shards(source: StreamSource, shards: Path) -> None:
    assert len(source) == 26
    assert source.labels is not None and source.labels.tolist() == [number % 3 for number in range(26)]
    assert [source.read(index).getpixel((0, 0))[0] for index in (0, 4, 5, 25)] == [0, 4, 5, 25]
    assert source.describe(12) == f"{shards}/train-2.tar, image 1"
    assert len(open_source(f"wds:{shards}/train-*.tar")) == 26


def test_jpg_with_txt_gives_captions(tmp_path: Path) -> None:
    files = {
        "a.jpg": encoded(1, "JPEG"),
        "a.txt": b"one cat\n",
        "dir/b.jpg": encoded(2, "JPEG"),
        "dir/b.txt": "café".encode(),
    }
    write_shard(tmp_path / "a.tar", {**files, "c.txt": b"no image", "__meta__": b"x"})
    source = open_source(f"wds:{tmp_path}/a.tar")
    assert len(source) == 2 and source.labels is None
    (batch,) = Loader(source, batch_size=2, seed=0, crop=plain_crop, shuffle=False).epoch(0)
    assert batch.captions == (("one cat",), ("café",)) and batch.labels is None and shown(batch) == [1, 2]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("shuffle", [True, False])
def test_shards_are_shared_out_without_repeats_or_gaps(
    source: StreamSource, world_size: int, shuffle: bool
) -> None:
    seen: list[int] = []
    sizes = []
    for rank in range(world_size):
        loader = Loader(
            source, batch_size=10, seed=1, rank=rank, world_size=world_size, crop=plain_crop, shuffle=shuffle
        )
        batches = list(loader.epoch(0))
        sizes.append([len(batch) for batch in batches])
        for batch in batches:
            assert shown(batch) == batch.index.tolist()
            assert batch.labels is not None and torch.equal(batch.labels, batch.index % 3)
            seen += batch.index.tolist()
    assert sorted(seen) == list(range(26))
    assert [sum(parts) for parts in zip(*sizes, strict=True)] == [10, 10, 6]
    assert (seen == list(range(26))) == (not shuffle)


def test_resumed_epochs_and_any_workers_give_the_same_batches(source: StreamSource) -> None:
    whole = list(Loader(source, batch_size=8, seed=3, crop=noisy_crop).epoch(1))
    other = list(Loader(source, batch_size=8, seed=3, crop=noisy_crop).epoch(2))
    assert whole[0].index.tolist() != other[0].index.tolist()
    helped = Loader(source, batch_size=8, seed=3, crop=noisy_crop, workers=2)
    interrupted = helped.epoch(2)
    next(interrupted)
    del interrupted
    for start in (0, 2):
        resumed = list(helped.epoch(1, start=start))
        assert len(resumed) == len(whole) - start
        for one, two in zip(whole[start:], resumed, strict=True):
            assert torch.equal(one.index, two.index)
            assert all(torch.equal(*pair) for pair in zip(one.images, two.images, strict=True))


def test_a_subset_of_a_stream(source: StreamSource) -> None:
    part = source.subset(np.array([0, 4, 5, 11, 25])).subset(np.array([1, 2, 4]))
    assert len(part) == 3 and part.labels is not None and part.labels.tolist() == [1, 2, 1]
    (batch,) = Loader(part, batch_size=3, seed=0, crop=plain_crop, shuffle=False).epoch(0)
    assert shown(batch) == [4, 5, 25] and batch.index.tolist() == [0, 1, 2]
    assert part.read(2).getpixel((0, 0)) == (25, 25, 25)
    with pytest.raises(ValueError, match="ascending"):
        source.subset(np.array([2, 1]))


def test_an_unreadable_image_is_replaced_within_its_share(tmp_path: Path) -> None:
    files = {f"{number}.png": encoded(number) for number in range(10)}
    files["4.png"] = b"broken"
    write_shard(tmp_path / "a.tar", files)
    source = open_source(f"wds:{tmp_path}/a.tar")
    loader = Loader(source, batch_size=5, seed=0, crop=plain_crop)
    batches = list(loader.epoch(0))
    assert [len(batch) for batch in batches] == [5, 5] and list(loader.unreadable) == [4]
    assert loader.unreadable[4].where.endswith("a.tar, 4.png")
    assert {index for batch in batches for index in batch.index.tolist()} == set(range(10)) - {4}
    assert all(shown(batch) == batch.index.tolist() for batch in batches)


def test_a_cut_off_shard_is_named(source: StreamSource, shards: Path) -> None:
    content = (shards / "train-2.tar").read_bytes()
    (shards / "train-2.tar").write_bytes(content[:3000])
    for workers in (0, 1):
        with pytest.raises(UserError, match=r"train-2\.tar"):
            list(Loader(source, batch_size=8, seed=0, crop=plain_crop, workers=workers).epoch(0))
    with pytest.raises(UserError, match=r"train-2\.tar|0 images"):
        list(Loader(open_source(f"wds:{shards}/train-2.tar"), batch_size=7, seed=0, crop=plain_crop).epoch(0))


def write_index(folder: Path, *entries: tuple[str, int]) -> Path:
    file = folder / "index.json"
    file.write_text(json.dumps({"shardlist": [{"url": url, "nsamples": count} for url, count in entries]}))
    return file


def test_an_index_says_what_the_shards_hold(shards: Path) -> None:
    index = write_index(shards, ("train-1.tar", 6), ("train-0.tar", 5))
    source = open_source(f"wds:{index}")
    (batch,) = Loader(source, batch_size=11, seed=0, crop=plain_crop, shuffle=False).epoch(0)
    assert shown(batch) == [5, 6, 7, 8, 9, 10, 0, 1, 2, 3, 4]
    assert batch.labels is not None and batch.labels.tolist() == [2, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1]
    index = write_index(shards, ("train-0.tar", 9))
    with pytest.raises(UserError, match=r"fewer images than expected \(9\)"):
        list(Loader(open_source(f"wds:{index}"), batch_size=9, seed=0, crop=plain_crop).epoch(0))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("../other.tar", "leads out of its folder"),
        ("https://example.org/a.tar", "--download"),
        ("https://example.org/a.tar'; touch /tmp/harm; '", "refused"),
        ("pipe:touch /tmp/harm", "does not exist"),
        ("file:///etc/passwd", "refused"),
    ],
)
def test_addresses_in_an_index_are_not_trusted(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_source(f"wds:{write_index(tmp_path, (url, 3))}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("wds:{folder}/train-{{7..8}}.tar", "2 of 2 shards .* are missing"),
        ("wds:https://example.org/{{0..3}}.tar", "need an index"),
        ("wds:pipe:cat x.tar", "need an index"),
        ("wds:{folder}/absent.json", "there is no file"),
        ("wds:", "write wds:PATH"),
    ],
)
def test_messages(shards: Path, spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_source(spec.format(folder=shards))


def test_no_test_part_and_no_number(shards: Path) -> None:
    with pytest.raises(MissingPartError):
        open_source(f"wds:{shards}/train-0.tar", part="test")
    write_shard(shards / "bad.tar", {"a.png": encoded(1), "a.cls": b"dog"})
    with pytest.raises(UserError, match=r"a\.cls: its class is 'dog', not a number"):
        open_source(f"wds:{shards}/bad.tar")


def test_a_stream_can_be_inspected(source: StreamSource) -> None:
    found = inspect_source(source, at_most=7)
    assert (found.count, found.examined, found.formats) == (26, 7, {"PNG": 7})
    assert found.classes == {"0": 9, "1": 9, "2": 8}


def test_a_shuffle_buffer_keeps_every_item_and_moves_them() -> None:
    mixed = list(shuffled(iter(range(500)), 50, np.random.default_rng(0)))
    assert sorted(mixed) == list(range(500)) and mixed != list(range(500))
    assert all(item <= place + 50 for place, item in enumerate(mixed))  # nothing comes before it was read


def test_reading_ahead_passes_items_and_errors_on() -> None:
    def failing() -> object:
        yield from range(3)
        raise UserError("the end of the line")

    ahead = read_ahead(failing(), 2)  # type: ignore[arg-type]
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(UserError, match="end of the line"):
        next(ahead)
