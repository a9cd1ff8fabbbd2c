"""Images without an up: the eight orientations of a square, against NumPy's ``fliplr`` and ``rot90``."""

from itertools import product

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as tv
from numpy.typing import NDArray
from scipy.stats import chisquare
from torch import Tensor

from cacr.errors import SettingsError
from cacr.views import PRESETS, Augmentation, Views
from cacr.views.draws import draw_crops
from tests.views.images import photos

MEAN, STD = (0.48, 0.46, 0.41), (0.23, 0.22, 0.24)
WHOLE = Augmentation(24, scale=(1.0, 1.0), ratio=(1.0, 1.0), upright=False)
"""Of an image of 24 pixels a view shows every pixel as it is."""

LEAST_P = 1e-3
ORIENTATIONS = list(product((False, True), range(4)))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def oriented(image: Tensor, flip: bool, turn: int) -> NDArray[np.generic]:
    """The oracle, of an image (3, size, size)."""
    pixels = image.numpy().transpose(1, 2, 0)
    return np.rot90(np.fliplr(pixels) if flip else pixels, turn).transpose(2, 0, 1)


def orientation_of(view: Tensor, image: Tensor) -> int:
    """The number of the only orientation of ``image`` that ``view`` is, bit for bit."""
    equal = [np.array_equal(view.numpy(), oriented(image, *each)) for each in ORIENTATIONS]
    assert sum(equal) == 1
    return equal.index(True)


def require_uniform(counts: NDArray[np.int64]) -> None:
    assert counts.min() > 0
    assert chisquare(counts.ravel()).pvalue > LEAST_P


def test_arrays_have_all_eight_equally_often_and_nothing_but_a_permutation() -> None:
    """Two views of an image are turned independently; pixels keep their values to the last bit."""
    images = photos(800, 24, 24)
    (made,) = Views([WHOLE] * 2, (0.0,) * 3, (1.0,) * 3)(images, generator())
    plain = images * torch.tensor(1 / 255)
    pairs = np.zeros((8, 8), dtype=np.int64)
    for number in range(len(images)):
        first, second = (orientation_of(view[number], plain[number]) for view in made)
        pairs[first, second] += 1
    require_uniform(pairs.sum(axis=0))
    require_uniform(pairs.sum(axis=1))
    require_uniform(pairs)


def test_files_have_all_eight_equally_often_and_nothing_but_a_permutation() -> None:
    image = photos(1, 24, 24)[0]
    views = Views([WHOLE] * 800, MEAN, STD)
    (cut,) = views.crop(tv.to_pil_image(image), generator())
    require_uniform(np.bincount([orientation_of(view, image) for view in cut], minlength=8))


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_view_is_the_upright_one_turned(name: str) -> None:
    """Every preset, from arrays: windows and colours are the same as those of images that are upright."""
    preset = PRESETS[name].resized(32)
    count, images = max(4, preset.default_views), photos(6, 40, 52)
    still = preset.with_options(flip=0, **({"local_flip": 0} if preset.local else {}))
    expected, made = (
        Views(each.for_views(count), MEAN, STD)(images, generator(3))
        for each in (still, preset.with_options(upright=False))
    )
    seen = set()
    for upright, turned in zip(expected, made, strict=True):
        for a, b in zip(upright.flatten(0, 1), turned.flatten(0, 1), strict=True):
            differences = [np.abs(oriented(a, *each) - b.numpy()).max() for each in ORIENTATIONS]
            assert min(differences) < 1e-4
            seen.add(int(np.argmin(differences)))
    assert len(seen) == 8


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_crop_of_a_file_is_the_upright_one_turned(name: str) -> None:
    preset = PRESETS[name].resized(32)
    still = preset.with_options(flip=0, **({"local_flip": 0} if preset.local else {}))
    image, seen = tv.to_pil_image(photos(1, 40, 52)[0]), set()
    expected, made = (
        Views(each.for_views(40), MEAN, STD).crop(image, generator(3))
        for each in (still, preset.with_options(upright=False))
    )
    for upright, turned in zip(expected, made, strict=True):
        seen |= {orientation_of(b, a) for a, b in zip(upright, turned, strict=True)}
    assert len(seen) == 8


def test_upright_images_are_drawn_as_ever() -> None:
    """23 numbers for an item, of which the last decides the flip."""
    draw, again = generator(5), generator(5)
    crops = draw_crops([Augmentation(32, flip=0.3)], 500, 40, 40, draw)
    numbers = torch.rand((500, 23), generator=again, dtype=torch.float64)
    assert torch.equal(crops.flip, numbers[:, -1] < 0.3)
    assert not crops.turn.any()
    assert torch.equal(draw.get_state(), again.get_state())


def test_the_setting_holds_for_all_views_and_is_read_from_text() -> None:
    for value in ("false", "False", False):
        preset = PRESETS["multicrop-cacr"].with_options(upright=value)
        assert not any(view.upright for view in preset.for_views(4))
    assert PRESETS["cifar"].with_options(upright="true") == PRESETS["cifar"]
    with pytest.raises(SettingsError, match=r"upright: 0\.5 is not true or false"):
        PRESETS["cifar"].with_options(upright=0.5)
    with pytest.raises(SettingsError, match="no setting 'local_upright'"):
        PRESETS["multicrop-swav"].with_options(local_upright=False)
    with pytest.raises(SettingsError, match="flip has no effect with upright=false"):
        PRESETS["cifar"].with_options(upright=False, flip=0.2)


def test_a_device_is_never_waited_for() -> None:
    """On the meta device nothing can be read back, as on a GPU."""
    preset = PRESETS["multicrop-cacr"].resized(48).with_options(upright=False)
    made = Views(preset.for_views(4), MEAN, STD, device="meta")(photos(5, 48, 60), generator())
    assert [run.device.type for run in made] == ["meta", "meta"]
