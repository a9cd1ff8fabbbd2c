"""The loader: order, sharing out, resuming, and what it does with damage."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cacr.data import ArraySource, Batch, Loader, Source, open_source
from cacr.data.decoder import Work
from cacr.data.order import Plan, count_batches, epoch_order, least_batch, sample_generator, share
from cacr.errors import UserError
from tests.data.making import noisy_crop, numbered, plain_crop, save, truncate


def array_source(count: int) -> ArraySource:
    images = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 2, 2).contiguous()
    return ArraySource("toy", images, labels=np.arange(count) % 3)


def same(one: Batch, other: Batch) -> bool:
    pairs = zip(one.images, other.images, strict=True)
    return torch.equal(one.index, other.index) and all(torch.equal(*pair) for pair in pairs)


def assert_same(expected: Sequence[Batch], found: Iterable[Batch]) -> None:
    """As many batches, and each one the same."""
    found = list(found)
    assert len(found) == len(expected) > 0
    assert all(map(same, expected, found))


def indices(batches: list[Batch]) -> list[int]:
    return torch.cat([batch.index for batch in batches]).tolist()


@given(count=st.integers(1, 500), batch_size=st.integers(2, 64), world_size=st.integers(1, 5))
def test_shares_have_no_repeats_and_no_gaps(count: int, batch_size: int, world_size: int) -> None:
    order = epoch_order(count, 3, 7)
    assert sorted(order.tolist()) == list(range(count))
    for begin in range(0, count, batch_size):
        batch = order[begin : begin + batch_size]
        shares = [batch[share(len(batch), rank, world_size)] for rank in range(world_size)]
        assert np.concatenate(shares).tolist() == batch.tolist()
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    batches = count_batches(count, batch_size, least_batch(batch_size, world_size))
    last = min(batch_size, count - (batches - 1) * batch_size)
    rest = count - batches * batch_size
    if batches and batch_size >= 2 * world_size:
        assert 2 * last >= batch_size and last // world_size >= 2
    assert 2 * rest < batch_size or rest < 2 * world_size
    assert count_batches(count, batch_size, 1) == -(-count // batch_size)


def test_orders_and_generators_differ_by_seed_epoch_and_image() -> None:
    orders = {tuple(epoch_order(50, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9
    states = {sample_generator(s, e, i).initial_seed() for s in range(3) for e in range(3) for i in range(3)}
    assert len(states) == 27
    assert sample_generator(1, 2, 3).initial_seed() == sample_generator(1, 2, 3).initial_seed()


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_processes_together_make_the_batch_of_one(world_size: int) -> None:
    source = array_source(100)
    alone = list(Loader(source, batch_size=8, seed=5).epoch(2))
    loaders = [
        Loader(source, batch_size=8, seed=5, rank=rank, world_size=world_size) for rank in range(world_size)
    ]
    together = [list(loader.epoch(2)) for loader in loaders]
    for number, batch in enumerate(alone[:12]):
        assert torch.equal(torch.cat([part[number].index for part in together]), batch.index)
    # Four images are left, half of a batch: enough for two processes, too few for three.
    assert [loader.batches_per_epoch for loader in loaders] == [12 if world_size == 3 else 13] * world_size
    assert len(alone) == 13 and sorted(indices(alone)) == list(range(100))


def test_a_batch_of_an_array_is_raw_and_labelled() -> None:
    source = array_source(20)
    batches = list(Loader(source, batch_size=8, seed=0).epoch(0))
    assert [len(batch) for batch in batches] == [8, 8, 4]
    for batch in batches:
        images = batch.images
        assert (
            images.dtype == torch.uint8 and images.shape == (len(batch), 3, 2, 2) and images.is_contiguous()
        )
        assert torch.equal(images[:, 0, 0, 0].long(), batch.index)
        assert batch.labels is not None and torch.equal(batch.labels, batch.index % 3)
        assert batch.captions is None and batch.unreadable == ()


@pytest.mark.parametrize("left", [1, 3])
def test_a_small_last_batch_is_dropped_and_its_images_return_in_other_epochs(left: int) -> None:
    loader = Loader(array_source(16 + left), batch_size=8, seed=0)
    assert loader.batches_per_epoch == 2
    epochs = [set(indices(list(loader.epoch(epoch)))) for epoch in range(5)]
    assert all(len(epoch) == 16 for epoch in epochs) and set().union(*epochs) == set(range(16 + left))


@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_arrays_resume_in_the_middle(start: int) -> None:
    whole = list(Loader(array_source(40), batch_size=8, seed=1).epoch(3))
    resumed = list(Loader(array_source(40), batch_size=8, seed=1).epoch(3, start))
    assert len(resumed) == 5 - start and all(map(same, whole[start:], resumed))


@pytest.fixture
def folder(tmp_path: Path) -> Source:
    return open_source(str(numbered(tmp_path / "images", 22)))


def test_files_give_the_same_batches_with_any_workers_and_when_resumed(folder: Source) -> None:
    alone = Loader(folder, batch_size=8, seed=4, crop=noisy_crop)
    expected = {epoch: list(alone.epoch(epoch)) for epoch in (0, 1)}
    large, small = expected[0][0].images
    assert large.shape == (2, 8, 3, 4, 4) and small.shape == (1, 8, 3, 2, 2) and large.dtype == torch.uint8
    assert len(expected[0][2]) == 6
    for view in range(2):
        assert torch.equal(large[view, :, 0].amin((1, 2)) % 100, expected[0][0].index)
    assert not torch.equal(large[0], large[1])

    helped = Loader(folder, batch_size=8, seed=4, crop=noisy_crop, workers=2)
    assert_same(expected[0], helped.epoch(0))
    interrupted = helped.epoch(1)
    assert same(next(interrupted), expected[1][0])
    del interrupted
    assert_same(expected[1][1:], helped.epoch(1, start=1))
    shares = [
        Loader(folder, batch_size=8, seed=4, crop=noisy_crop, rank=rank, world_size=2) for rank in (0, 1)
    ]
    for batch, left, right in zip(expected[0], *(loader.epoch(0) for loader in shares), strict=True):
        assert all(
            torch.equal(torch.cat(parts, 1), whole)
            for *parts, whole in zip(left.images, right.images, batch.images, strict=True)
        )


def test_epochs_follow_one_another_as_one_by_one(folder: Source) -> None:
    for source, workers in ((array_source(22), 0), (folder, 0), (folder, 2)):
        single = Loader(source, batch_size=8, seed=4, crop=noisy_crop)
        expected = [*single.epoch(3, 1), *single.epoch(4), *single.epoch(5)]
        loader = Loader(source, batch_size=8, seed=4, crop=noisy_crop, workers=workers)
        assert_same(expected, loader.epochs(range(3, 6), start=1))


def test_workers_do_not_wait_at_the_end_of_an_epoch(folder: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def noting(plan: Plan, epoch: int, start: int) -> Iterator[Work]:
        begun.append(epoch)
        return (Work(epoch, indices) for indices in plan.batches(epoch, start))

    monkeypatch.setattr("cacr.data.loader._choose", noting)
    loader = Loader(folder, batch_size=8, seed=4, crop=noisy_crop, workers=1)
    batches = loader.epochs(range(5))
    next(batches)
    assert begun == [0, 1], "four batches lie ahead of the first of three"
    loader.close()


@pytest.mark.parametrize("world_size", [1, 3])
def test_a_pass_in_order_keeps_every_image(folder: Source, world_size: int) -> None:
    loaders = [
        Loader(folder, batch_size=7, seed=0, crop=plain_crop, shuffle=False, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    batches = [list(loader.epoch(0)) for loader in loaders]
    assert sorted(index for part in batches for index in indices(part)) == list(range(22))
    if world_size == 1:
        assert indices(batches[0]) == list(range(22))
    else:
        assert [len(part) for part in batches] == [3, 3, 4]  # the last batch has one image, for one process


@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_images_are_replaced_in_the_same_way_every_time(tmp_path: Path, workers: int) -> None:
    root = numbered(tmp_path / "images", 30)
    for number in (3, 4, 29):
        truncate(root / f"{number:03}.png", 0.6)
    loader = Loader(open_source(str(root)), batch_size=6, seed=2, crop=plain_crop, workers=workers)
    batches = list(loader.epoch(0))
    assert [len(batch) for batch in batches] == [6] * 5
    for batch in batches:
        shown = batch.images[0][0, :, 0, 0, 0].long()
        assert torch.equal(shown, batch.index)
        assert len(set(batch.index.tolist())) == 6
    assert set(loader.unreadable) == {3, 4, 29}
    assert loader.unreadable[3].where.endswith("003.png")
    order = epoch_order(30, 2, 0)
    for position, (wanted, got) in enumerate(zip(order.tolist(), indices(batches), strict=True)):
        if wanted in (3, 4, 29):
            share_of_batch = set(order[position // 6 * 6 : position // 6 * 6 + 6].tolist())
            following = [(wanted + step) % 30 for step in range(1, 30)]
            assert got == next(i for i in following if i not in share_of_batch and i not in (3, 4, 29))
        else:
            assert got == wanted
    again = Loader(open_source(str(root)), batch_size=6, seed=2, crop=plain_crop)
    assert_same(batches[2:], again.epoch(0, start=2))


def test_a_pass_in_order_leaves_unreadable_images_out(tmp_path: Path) -> None:
    root = numbered(tmp_path / "images", 12)
    truncate(root / "005.png")
    loader = Loader(open_source(str(root)), batch_size=4, seed=0, crop=plain_crop, shuffle=False)
    assert indices(list(loader.epoch(0))) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("workers", [0, 1])
def test_too_many_unreadable_images_stop_the_run(tmp_path: Path, workers: int) -> None:
    root = numbered(tmp_path / "images", 20)
    for number in range(3):
        (root / f"{number:03}.png").write_bytes(b"")
    source = open_source(str(root))
    with pytest.raises(
        UserError, match=r"3 of 20 images cannot be read, more than the limit of 10%.*\n.*00\d\.png"
    ) as caught:
        list(Loader(source, batch_size=4, seed=0, crop=plain_crop, workers=workers).epoch(0))
    assert "Traceback" not in str(caught.value)
    tolerant = Loader(source, batch_size=4, seed=0, crop=plain_crop, workers=workers, max_unreadable=0.15)
    assert len(list(tolerant.epoch(0))) == 5
    tolerant.close()  # ``caught`` makes a cycle that would hold its process for a while


def test_no_readable_image_at_all(tmp_path: Path) -> None:
    root = numbered(tmp_path / "images", 4)
    for file in root.iterdir():
        file.write_bytes(b"")
    with pytest.raises(UserError, match="no readable image"):
        list(
            Loader(open_source(str(root)), batch_size=4, seed=0, crop=plain_crop, max_unreadable=1.0).epoch(0)
        )


def fails_on_seven(image: Image.Image, generator: torch.Generator) -> list[torch.Tensor]:
    if image.getpixel((0, 0)) == (7, 7, 7):
        raise ZeroDivisionError("a mistake in the crop")
    return plain_crop(image, generator)


def dies_on_seven(image: Image.Image, generator: torch.Generator) -> list[torch.Tensor]:
    if image.getpixel((0, 0)) == (7, 7, 7):
        os.kill(os.getpid(), signal.SIGKILL)
    return plain_crop(image, generator)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failing_crop_names_the_file(folder: Source, workers: int) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(Loader(folder, batch_size=4, seed=0, crop=fails_on_seven, workers=workers).epoch(0))
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "007.png" in told and "a mistake in the crop" in told


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_names_the_file(folder: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.2)  # PyTorch looks every 5 s
    with pytest.raises(UserError, match=r"died while reading .*007\.png"):
        list(Loader(folder, batch_size=4, seed=0, crop=dies_on_seven, workers=2).epoch(0))


def test_captions_and_labels_follow_the_images(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/3.png", "b/4.png"):
        save(tmp_path / "classes" / name)
    loader = Loader(open_source(str(tmp_path / "classes")), batch_size=2, seed=0, crop=plain_crop)
    batches = list(loader.epoch(0))
    assert sorted(indices(batches)) == [0, 1, 2, 3]
    for batch in batches:
        assert batch.labels is not None and torch.equal(batch.labels, batch.index // 2)
    lines = [f'{{"image": "classes/a/{n}.png", "captions": ["number {n}"]}}' for n in (1, 2)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    (batch,) = Loader(
        open_source(str(tmp_path / "pairs.jsonl")), batch_size=2, seed=0, crop=plain_crop
    ).epoch(0)
    assert (
        batch.captions == tuple((f"number {i + 1}",) for i in batch.index.tolist()) and batch.labels is None
    )


def test_large_jpegs_reach_the_crop_at_a_fraction_of_their_size(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / f"{number}.jpg", Image.new("RGB", (400, 800)))

    def size_of(image: Image.Image, generator: torch.Generator) -> list[torch.Tensor]:
        return [torch.tensor(image.size, dtype=torch.int32).view(1, 2, 1, 1)]

    (batch,) = Loader(open_source(str(tmp_path)), batch_size=4, seed=0, crop=size_of, at_least=90).epoch(0)
    assert batch.images[0].flatten().tolist() == [100, 200] * 4


def _make(count: int, **options: int) -> Callable[[], Loader]:
    return lambda: Loader(array_source(count), **{"seed": 0, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_make(5, batch_size=8), "5 images, fewer than a batch of 8; choose a batch size of at most 5"),
        (_make(9, batch_size=1), "batch size 1 is too small"),
        (_make(9, batch_size=3, world_size=2), "choose 4 or more"),
    ],
)
def test_batches_that_cannot_be(make: Callable[[], Loader], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_files_need_a_crop(folder: Source) -> None:
    with pytest.raises(ValueError, match="need a crop"):
        Loader(folder, batch_size=4, seed=0)
