"""The contact sheet shows images and views in their places."""

import numpy as np
import torch
import torchvision.transforms.functional as tv

from cacr.views import PRESETS, Augmentation, Views, contact_sheet
from tests.views.images import photos


def test_views_appear_with_their_own_colours() -> None:
    """A view that changes nothing shows the image itself."""
    images = photos(2, 32, 32)
    same = Augmentation(32, scale=None, resize=32, flip=0.0)
    views = Views([same], (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    made = views(images, torch.Generator().manual_seed(0))
    originals = [tv.to_pil_image(image) for image in images]
    page = contact_sheet(originals, made, views.mean, views.std, cell=32, gap=2)
    assert page.size == (2 + 32 + 2 + 32 + 2, 2 + 2 * (32 + 2))
    pixels = np.asarray(page).astype(int)
    for row, image in enumerate(originals):
        cells = pixels[2 + 34 * row : 34 + 34 * row]
        assert np.array_equal(cells[:, 2:34], np.asarray(image))
        assert np.abs(cells[:, 36:68] - np.asarray(image)).max() <= 1
    assert (pixels[:2] == 255).all()


def test_rows_are_images_and_columns_views_of_any_size() -> None:
    images = photos(3, 60, 80)
    preset = PRESETS["multicrop-swav"].resized(112)
    made = Views(preset.for_views(4), preset.mean, preset.std)(images, torch.Generator().manual_seed(0))
    page = contact_sheet([tv.to_pil_image(image) for image in images], made, preset.mean, preset.std, gap=4)
    assert page.size == (4 + 3 * (112 + 4) + 2 * (48 + 4), 4 + 3 * (112 + 4))
