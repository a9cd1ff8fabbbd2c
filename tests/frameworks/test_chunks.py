"""Images encoded in chunks, twice: the loss and gradients of the whole batch, and what batch norm makes of it."""

import copy
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from cacr.encoders import Encoder, EncoderInfo
from cacr.frameworks import Framework, InBatch, describe_chunks, encode_twice, in_chunks
from cacr.losses import CACRLoss
from tests.frameworks.making import make_framework, make_views

pytestmark = pytest.mark.trains

VIEWS, IMAGES, SIZE, DIM = 3, 11, 4, 5
CHUNK = 4


def _backbone(*middle: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 6), *middle, nn.Tanh())


def _method(*middle: nn.Module) -> InBatch:
    torch.manual_seed(0)
    encoder = Encoder(_backbone(*middle), EncoderInfo("tiny", SIZE, 6))
    return InBatch(encoder, nn.Linear(6, DIM), CACRLoss()).double().train()


def _views(images: int = IMAGES) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(VIEWS, images, 3, SIZE, SIZE, dtype=torch.float64, generator=generator)]


def _step(method: Framework, views: list[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(2)
    loss = method(views)["loss"]
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in method.named_parameters() if p.grad is not None}


class _InPieces(InBatch):
    """The same chunks with one graph for all of them: what two passes must give."""

    def forward(self, views: list[Tensor]) -> dict[str, Tensor]:
        pieces = [self.embed([part]) for part in views[0].tensor_split(3, dim=1)]
        return self.objective.parts(torch.cat(pieces, dim=1))


def test_loss_and_gradients_are_those_of_the_whole_batch() -> None:
    whole = _method()
    chunked = copy.deepcopy(whole)
    chunked.encode_chunk = CHUNK
    torch.testing.assert_close(_step(chunked, _views()), _step(whole, _views()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "layer", [lambda: nn.Dropout(0.5), lambda: nn.BatchNorm1d(6), lambda: nn.BatchNorm1d(6, momentum=None)]
)
def test_both_passes_draw_the_same_and_statistics_move_once(layer: Callable[[], nn.Module]) -> None:
    chunked = _method(layer())
    chunked.encode_chunk = CHUNK
    pieces = copy.deepcopy(chunked)
    pieces.__class__ = _InPieces
    torch.testing.assert_close(_step(chunked, _views()), _step(pieces, _views()), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(chunked.state_dict(), pieces.state_dict())


def test_one_chunk_has_a_graph_at_a_time() -> None:
    """Between the passes nothing but the views is kept; in the second a chunk is done before the next begins."""
    events = []

    def encode(views: Sequence[Tensor]) -> Tensor:
        (x,) = views
        events.append(("encode", x.shape[1]))
        hidden = layer(x.flatten(0, 1).flatten(1))
        hidden.register_hook(lambda _: events.append(("backward", x.shape[1])))
        return hidden.tanh().unflatten(0, x.shape[:2])

    def keep(x: Tensor) -> Tensor:
        kept.append(x)
        return x

    kept: list[Tensor] = []
    layer = nn.Linear(3 * SIZE * SIZE, DIM).double()
    views = _views()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        z = encode_twice(encode, in_chunks(views, CHUNK), layer)
    assert events == [("encode", 4), ("encode", 4), ("encode", 3)]
    assert {x.untyped_storage().data_ptr() for x in kept} == {views[0].untyped_storage().data_ptr()}
    del events[:]
    z.sum().backward()
    assert events == [(what, images) for images in (3, 4, 4) for what in ("encode", "backward")]


def test_parts_hold_all_sizes_of_crops_and_differ_by_one_image_at_most() -> None:
    views = [_views()[0], _views()[0][:1]]
    parts = in_chunks(views, CHUNK)
    assert [[tuple(x.shape[:2]) for x in part] for part in parts] == [
        [(VIEWS, images), (1, images)] for images in (4, 4, 3)
    ]
    assert torch.equal(torch.cat([part[0] for part in parts], dim=1), views[0])
    assert in_chunks(views, None) == [views]
    assert len(in_chunks(views, IMAGES)) == 1


def test_keys_of_a_momentum_encoder_are_those_of_the_whole_batch() -> None:
    whole = make_framework("queue").train()
    chunked = copy.deepcopy(whole)
    chunked.encode_chunk = CHUNK
    views = make_views(VIEWS, IMAGES, local=1)
    torch.testing.assert_close(_step(chunked, views), _step(whole, views), rtol=1e-12, atol=1e-12)
    for method in (whole, chunked):
        method.after_step(1, 10)
    torch.testing.assert_close(chunked.state_dict(), whole.state_dict())


def test_a_user_is_told_what_batch_norm_sees() -> None:
    assert "those of the whole batch" in describe_chunks(_method(), 64)
    assert "statistics of 64 images" in describe_chunks(_method(nn.BatchNorm1d(6)), 64)
