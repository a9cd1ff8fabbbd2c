"""Views that are harder than those of training."""

import pytest

from cacr.views import PRESETS, Augmentation, strengthened


def test_stronger_views_of_a_photo() -> None:
    strong = strengthened(PRESETS["cifar"].views[0])
    assert strong.scale == (0.1, 0.5) and strong.ratio == (3 / 4, 4 / 3)
    changes = strong.brightness, strong.contrast, strong.saturation, strong.hue, strong.grey
    assert changes == pytest.approx((0.6, 0.6, 0.6, 0.5, 0.3))


@pytest.mark.parametrize("name", PRESETS.names())
def test_stronger_views_keep_what_the_preset_leaves_alone(name: str) -> None:
    for view in PRESETS[name].views:
        strong = strengthened(view)
        assert strong.scale is not None and strong.scale[1] <= 0.5 and strong.size == view.size
        assert (
            strong.flip == view.flip and strong.jitter == 1 and min(strong.brightness, strong.contrast) >= 0.6
        )
        for part in ("saturation", "hue", "grey", "blur", "solarise"):
            assert (getattr(strong, part) > 0) is (getattr(view, part) > 0), part


def test_stronger_views_of_views_without_colours_change_the_light_alone() -> None:
    strong = strengthened(Augmentation(32, jitter=0.0, brightness=0.9, saturation=0.4, hue=0.4))
    assert (strong.brightness, strong.contrast, strong.saturation, strong.hue) == (0.6, 0.6, 0, 0)


def test_the_strongest_views_are_still_views() -> None:
    view = Augmentation(
        32, scale=None, resize=32, jitter=1, brightness=100, contrast=100, saturation=100, hue=0.5, grey=1
    )
    assert strengthened(view).scale == (0.5, 0.5)
