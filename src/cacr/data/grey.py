"""Recognise grey images."""

import numpy as np
from PIL import Image

GREY_TOLERANCE = 8
"""Largest difference (of 255) between the channels of a grey pixel: lossy files of grey images differ by 1, colour
photos by 40 and more."""


def is_grey(image: Image.Image) -> bool:
    """Whether the three channels of an RGB image are equal everywhere, apart from compression errors."""
    red, green, blue = np.asarray(image).transpose(2, 0, 1)
    largest = np.maximum(np.maximum(red, green), blue)
    smallest = np.minimum(np.minimum(red, green), blue)
    return int((largest - smallest).max()) <= GREY_TOLERANCE
