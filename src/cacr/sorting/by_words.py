"""Predict labels from the names of classes, without labelled images."""

from collections.abc import Sequence

import numpy as np

from cacr.errors import UserError
from cacr.features.collection import Collection
from cacr.features.words import PLAIN, class_vectors, read_prompts, readable
from cacr.sorting.predict import Guesses

BY = "words"


def class_list(text: str) -> tuple[str, ...]:
    """Class names from a text with commas.

    Raises:
        UserError: there are fewer than two, or a name is repeated.
    """
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(names) < 2:
        raise UserError(
            f'--classes {text!r} has {len(names)} names: give at least two, such as cat,dog,"something else"'
        )
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"--classes has {sorted(twice)[0]!r} twice")
    return names


def predict_by_words(found: Collection, classes: Sequence[str], *, prompts: str = PLAIN) -> Guesses:
    """The class whose prompt is nearest to each image, with a confidence.

    The confidence is the softmax over the classes of the cosines times the scale of the encoder's training. It is not
    checked with labels: it says which predictions to check first, not how many are right.

    Args:
        found: The images; their encoder also encodes text.
        classes: Names of the classes, as words.
        prompts: Prompt templates, see :func:`cacr.features.words.read_prompts`.
    """
    sentences = read_prompts(prompts)
    side = found.encoder.text
    vectors = class_vectors(side, [readable(name, sentences) for name in classes], sentences)
    scores = side.scale * (side.of_images(found.features) @ vectors.T)
    return Guesses.of(scores.double().softmax(dim=1), np.arange(len(found)), tuple(classes), BY)
