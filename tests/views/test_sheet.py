"""The contact sheet shows images and views in their places."""

import numpy as np
import torchvision.transforms.functional as tv

from cacr.views import PRESETS, Augmentation, Views, contact_sheet
from tests.views.images import photos


def test_views_appear_with_their_own_colours() -> None:
    """A view that changes nothing shows the image itself."""
    image = tv.to_pil_image(photos(1, 32, 32)[0])
    same = Augmentation(32, scale=None, resize=32, flip=0.0)
    page = contact_sheet([image], Views([same], (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)), cell=32, gap=2)
    assert page.size == (2 + 32 + 2 + 32 + 2, 2 + 32 + 2)
    pixels = np.asarray(page).astype(int)
    assert np.array_equal(pixels[2:34, 2:34], np.asarray(image))
    assert np.abs(pixels[2:34, 36:68] - np.asarray(image)).max() <= 1
    assert (pixels[:2] == 255).all()


def test_rows_are_images_and_columns_views_of_any_size() -> None:
    images = [tv.to_pil_image(image) for image in photos(3, 60, 80)]
    preset = PRESETS["multicrop-swav"].resized(112)
    page = contact_sheet(images, Views(preset.for_views(4), preset.mean, preset.std), gap=4)
    assert page.size == (4 + 3 * (112 + 4) + 2 * (48 + 4), 4 + 3 * (112 + 4))


def test_a_seed_gives_the_same_page() -> None:
    images = [tv.to_pil_image(image) for image in photos(2, 32, 32)]
    preset = PRESETS["cifar"]
    views = Views(preset.for_views(2), preset.mean, preset.std)
    first, again, other = (np.asarray(contact_sheet(images, views, seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
