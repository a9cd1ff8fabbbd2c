"""Images are encoded in batches that fit into the memory that is free."""

import pytest
import torch
from torch import nn

from cacr.data import ArraySource
from cacr.encoders import Encoder, build_encoder
from cacr.errors import UserError
from cacr.features import room
from cacr.features.encode import encode
from cacr.features.machine import Machine
from cacr.features.room import images_that_fit, require_batch, require_learning
from cacr.reading.memory import HOLES
from cacr.training.cost.live import LiveBytes, bytes_of_one, bytes_of_step

SIZE = 32


@pytest.fixture
def encoder() -> Encoder:
    torch.manual_seed(0)
    return build_encoder("small_alexnet", image_size=SIZE, width=0.05)


@pytest.fixture
def source() -> ArraySource:
    draw = torch.Generator().manual_seed(0)
    return ArraySource("noise", torch.randint(256, (40, 3, SIZE, SIZE), dtype=torch.uint8, generator=draw))


def test_the_largest_power_of_two_that_fits_is_taken(
    encoder: Encoder, source: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    each, machine = HOLES * bytes_of_one(encoder, SIZE), Machine(100)
    for images, fits in ((1.5, 1), (20, 16), (99, 64), (101, 100), (1e6, 100)):
        monkeypatch.setattr(room, "free_memory", lambda images=images: images * each)
        assert images_that_fit(encoder, source, machine, SIZE) == fits
        assert (
            images_that_fit(encoder, source, machine, SIZE, beside=(images - 1.5) * each) == 1 or images > 1e5
        )


def test_the_bound_is_above_what_is_alive(encoder: Encoder) -> None:
    for made, size in ((encoder, SIZE), (build_encoder("vit_tiny_patch16_224", image_size=64), 64)):
        assert room._bound(made, size) > bytes_of_one(made, size)


def test_features_do_not_depend_on_the_memory(
    encoder: Encoder, source: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    plenty = encode(encoder, source)
    each = HOLES * bytes_of_one(encoder, SIZE)
    batches = []
    monkeypatch.setattr(room, "free_memory", lambda: 5 * each + plenty.values.nbytes)
    little = encode(encoder, source, progress=lambda done, _: batches.append(done))
    assert batches == list(range(4, 41, 4))
    torch.testing.assert_close(little.values, plenty.values)


def test_what_cannot_be_made_smaller_is_refused(
    encoder: Encoder, source: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = HOLES * bytes_of_one(encoder, SIZE)
    monkeypatch.setattr(room, "free_memory", lambda: 20 * each)
    require_batch(encoder, source, Machine(16), SIZE, "linear-moco.batch_size")
    with pytest.raises(UserError, match=r"--set linear-moco\.batch_size=16"):
        require_batch(encoder, source, Machine(32), SIZE, "linear-moco.batch_size")
    monkeypatch.setattr(room, "free_memory", lambda: 0)
    with pytest.raises(UserError, match="memory_gb or fewer workers"):
        encode(encoder, source)


def _network(encoder: Encoder) -> nn.Module:
    return nn.Sequential(encoder.backbone, nn.Linear(encoder.feature_dim, 3))


def test_a_step_is_counted_as_real_tensors_live(encoder: Encoder) -> None:
    network = _network(encoder)
    tensors = [*network.parameters(), *network.buffers()]
    live = LiveBytes(fake=False)
    live.ignore(tensors)
    with live:
        network.train()(torch.zeros(8, 3, SIZE, SIZE)).sum().backward()
    assert bytes_of_step(network, 8, SIZE) == pytest.approx(live.peak, rel=0.02)
    assert all(p.grad is not None for p in network.parameters())  # the network itself was not touched


def test_a_network_is_trained_on_batches_that_fit(
    encoder: Encoder, source: ArraySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = _network(encoder)
    weights = sum(p.nbytes for p in network.parameters())
    room_for = HOLES * bytes_of_step(network, 16, SIZE) + 2 * weights

    def require(images: int, setting: str | None = "finetune.batch_size") -> None:
        require_learning(encoder, network, source, Machine(images), SIZE, states=2, setting=setting)

    monkeypatch.setattr(room, "free_memory", lambda: 1.01 * room_for)
    require(16)
    with pytest.raises(UserError, match=r"it would fit with --set finetune\.batch_size=16$"):
        require(32)
    with pytest.raises(UserError, match="a protocol that does not train a whole network"):
        require(32, None)
    monkeypatch.setattr(room, "free_memory", lambda: 0)
    with pytest.raises(UserError, match="a machine with more memory"):
        require(32)


def test_what_is_surely_enough_is_enough(encoder: Encoder) -> None:
    for made, size in ((encoder, SIZE), (build_encoder("vit_tiny_patch16_224", image_size=64), 64)):
        network = _network(made)
        weights = sum(p.nbytes for p in network.parameters())
        surely = 8 * room.LEARNING * room._bound(made, size) + weights
        assert surely > bytes_of_step(network, 8, size)
