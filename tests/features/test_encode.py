from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cacr.data import ArraySource, FileSource, open_source
from cacr.encoders import load_encoder
from cacr.evaluation import BASELINES
from cacr.evaluation.baselines import Origin
from cacr.features import encode
from cacr.features.machine import Machine

pytestmark = pytest.mark.trains


def test_files_are_encoded_as_one_would_by_hand(run: Path, images: Path) -> None:
    encoder = load_encoder(run)
    source = open_source(str(images), part="train")
    seen: list[tuple[int, int]] = []
    features = encode(encoder, source, Machine(batch_size=10), lambda *now: seen.append(now))
    assert seen[-1] == (45, 45) and len(seen) == 5
    assert features.index.tolist() == list(range(45))
    assert features.values.dtype == torch.float32
    with torch.inference_mode():
        expected = torch.stack([encoder(encoder.preprocess(path)[None])[0] for path in source.paths])
    # Bytes are rounded after a resize, which the two ways do at most one step apart.
    torch.testing.assert_close(features.values, expected, rtol=0.05, atol=0.02 * expected.abs().max().item())
    assert torch.corrcoef(torch.stack([features.values.flatten(), expected.flatten()]))[0, 1] > 0.9999


def test_arrays_are_encoded_as_one_would_by_hand(run: Path) -> None:
    encoder = load_encoder(run)
    pixels = torch.randint(0, 256, (7, 3, 18, 18), dtype=torch.uint8)
    features = encode(encoder, ArraySource("noise", pixels), Machine(batch_size=4))
    with torch.inference_mode():
        expected = encoder(torch.stack([encoder.preprocess(image) for image in pixels]))
    torch.testing.assert_close(features.values, expected)


def test_unreadable_images_are_left_out(run: Path, tmp_path: Path) -> None:
    for number in range(20):
        Image.new("RGB", (20, 20), (number, 0, 0)).save(tmp_path / f"{number:02d}.png")
    (tmp_path / "03.png").write_bytes(b"damaged")
    source = FileSource("files", tmp_path, [f"{number:02d}.png" for number in range(20)])
    features = encode(load_encoder(run), source, Machine(batch_size=8))
    assert features.index.tolist() == [n for n in range(20) if n != 3]
    assert len(features.values) == 19
    assert [problem.index for problem in features.problems] == [3]


def test_baselines_see_the_same_images(run: Path) -> None:
    encoder = load_encoder(run)
    source = ArraySource("noise", torch.randint(0, 256, (5, 3, 18, 18), dtype=torch.uint8))
    pixels = BASELINES["pixels"](Origin(encoder.info), 0)
    values = encode(pixels, source).values
    expected = torch.stack([encoder.preprocess(image).flatten() for image in source.images])
    torch.testing.assert_close(values, expected)
    assert pixels.feature_dim == values.shape[1] == 3 * 16 * 16

    large = BASELINES["pixels"](Origin(replace(encoder.info, image_size=64)), 0)
    image = torch.randn(1, 3, 64, 64)
    means = image.reshape(1, 3, 32, 2, 32, 2).mean(dim=(3, 5)).flatten(1)
    torch.testing.assert_close(large(image), means)
    assert large.feature_dim == 3 * 32 * 32

    state = torch.random.get_rng_state()
    untrained = [BASELINES["untrained"](Origin(encoder.info), seed) for seed in (1, 1, 2)]
    assert torch.equal(torch.random.get_rng_state(), state)
    first, again, other = (encode(each, source).values.numpy() for each in untrained)
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert untrained[0].info.training == {} and untrained[0].info.mean == encoder.info.mean
