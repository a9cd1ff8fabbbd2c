"""Guesses from the names of classes alone, where nobody has labelled anything."""

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
        UserError: there are fewer than two, or one comes twice.
    """
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(names) < 2:
        raise UserError(
            f'--classes {text!r} names {len(names)}: give two at least, such as cat,dog,"something else"'
        )
    if twice := {name for name in names if names.count(name) > 1}:
        raise UserError(f"--classes names {sorted(twice)[0]!r} twice")
    return names


def predict_by_words(found: Collection, classes: Sequence[str], *, prompts: str = PLAIN) -> Guesses:
    """The class whose name, as a sentence, is nearest to each image, with a confidence.

    The confidence is the softmax over the classes of the cosines times the scale that the encoder was trained with. No
    label has checked it: it says which guesses to look at first, not how many are right.

    Args:
        found: The images; their encoder has a text side.
        classes: Names of the classes, as words.
        prompts: The sentences around them, see :func:`cacr.features.words.read_prompts`.
    """
    sentences = read_prompts(prompts)
    side = found.encoder.text
    vectors = class_vectors(side, [readable(name, sentences) for name in classes], sentences)
    scores = side.scale * (side.of_images(found.features) @ vectors.T)
    return Guesses.of(scores.double().softmax(dim=1), np.arange(len(found)), tuple(classes), BY)
