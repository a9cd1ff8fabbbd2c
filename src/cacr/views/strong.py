"""Views that are harder than those of training: what features are tested with that were trained with the others."""

from dataclasses import replace

from cacr.views.augmentation import Augmentation

CROP = 1 / 2
"""Factor on the area of a crop."""

COLOUR = 3 / 2
"""Factor on the strength of every change of colour that the view has."""

LIGHT = 0.6
"""Brightness and contrast change by at least this much: every image has light, grey ones and digits too."""

_LARGEST = 100.0


def strengthened(view: Augmentation) -> Augmentation:
    """The same view with crops of half the area and stronger colours, in every image.

    scale' = scale / 2, jitter' = 1, brightness' = max(3/2 brightness, 0.6), and contrast alike; saturation, hue and
    grey are multiplied by 3/2. Nothing exceeds the largest value that ``Augmentation`` allows.

    What a view leaves alone stays alone, because there is a reason: saturation, hue and greyscale of grey images, the
    mirror image of a digit, all colours where ``jitter`` is 0. Blur and solarising stay as they are.

    Args:
        view: of training; one without random crops gets crops of half the area.
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
