"""The kept first layer of a head: read back as it was written, for these weights only, refused when it is damaged."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from cacr.config import FORMAT
from cacr.encoders import build_encoder, build_head, load_encoder, save_encoder, save_head1
from cacr.encoders.head_file import HEAD1
from cacr.errors import UserError

HIDDEN = 6


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Path, nn.Sequential]:
    """An encoder in a folder with the first layer of its head, and the head, whose batch norm has seen something."""
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05)
    head = build_head("simclr_v2", encoder.feature_dim, dim=4, hidden=HIDDEN)
    assert isinstance(head, nn.Sequential)
    head.train()(torch.randn(9, encoder.feature_dim))
    save_encoder(tmp_path, encoder, encoder.info)
    save_head1(tmp_path, head, encoder)
    return tmp_path, head


def test_it_comes_back_with_the_encoder(kept: tuple[Path, nn.Sequential]) -> None:
    folder, head = kept
    encoder = load_encoder(folder)
    assert encoder.load_head1 is not None
    features = torch.randn(5, encoder.feature_dim)
    weight, norm = head[0].weight, head[1]
    z = (features @ weight.T - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
    expected = (z * norm.weight + norm.bias).clamp(min=0)
    torch.testing.assert_close(encoder.load_head1()(features), expected)
    (folder / HEAD1).unlink()
    assert load_encoder(folder).load_head1 is None


def test_loading_it_leaves_the_callers_random_numbers_alone(kept: tuple[Path, nn.Sequential]) -> None:
    load = load_encoder(kept[0]).load_head1
    assert load is not None
    before = torch.get_rng_state()
    load()
    assert torch.equal(torch.get_rng_state(), before)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def _without_norm(path: Path) -> None:
    save_file({"0.weight": load_file(path)["0.weight"]}, path, {"format": str(FORMAT)})


def _other_features(path: Path) -> None:
    save_file({"0.weight": torch.zeros(HIDDEN, 3)}, path, {"format": str(FORMAT)})


def _newer(path: Path) -> None:
    save_file(load_file(path), path, {"format": "999"})


def _of_other_weights(path: Path) -> None:
    encoder = load_encoder(path.parent)
    with torch.no_grad():
        next(encoder.backbone.parameters()).view(-1)[0] += 1e-3
    save_encoder(path.parent, encoder, encoder.info)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_cut, "not a readable safetensors file"),
        (_without_norm, "missing"),
        (_other_features, "no layer that takes"),
        (_newer, "format 999"),
        (_of_other_weights, "belongs to other weights"),
    ],
)
def test_a_wrong_one_is_refused_and_the_encoder_still_loads(
    damage: Callable[[Path], None], words: str, kept: tuple[Path, nn.Sequential]
) -> None:
    damage(kept[0] / HEAD1)
    load = load_encoder(kept[0]).load_head1
    assert load is not None
    with pytest.raises(UserError, match=words):
        load()
