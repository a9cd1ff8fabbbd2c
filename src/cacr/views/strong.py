"""Stronger views than those of training, to test the features."""

from dataclasses import replace

from cacr.views.augmentation import Augmentation

CROP = 1 / 2
"""Factor on the area of a crop."""

COLOUR = 3 / 2
"""Factor on the strength of every colour change of the view."""

LIGHT = 0.6
"""Smallest change of brightness and contrast: it works for every image, also for grey ones and digits."""

_LARGEST = 100.0


def strengthened(view: Augmentation) -> Augmentation:
    """The same view with crops of half the area and stronger colour changes, for every image.

    scale' = scale / 2, jitter' = 1, brightness' = max(3/2 brightness, 0.6), and the same for contrast; saturation,
    hue and grey are multiplied by 3/2. Nothing exceeds the largest value that ``Augmentation`` allows.

    Changes that a view does not have are not added, because there is a reason: saturation, hue and greyscale of grey
    images, flips of digits, all colours if ``jitter`` is 0. Blur and solarising are not changed.

    Args:
        view: a training view; one without random crops gets crops of half the area.
    """
    low, high = view.scale or (1.0, 1.0)
    colour = COLOUR if view.jitter > 0 else 0.0
    return replace(
        view,
        scale=(CROP * low, CROP * high),
        resize=None,
        jitter=1.0,
        brightness=min(max(colour * view.brightness, LIGHT), _LARGEST),
        contrast=min(max(colour * view.contrast, LIGHT), _LARGEST),
        saturation=min(colour * view.saturation, _LARGEST),
        hue=min(colour * view.hue, 0.5),
        grey=min(COLOUR * view.grey, 1.0),
    )
