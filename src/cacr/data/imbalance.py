"""Make a balanced data set unbalanced."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cacr.data.source import Indices, Source
from cacr.errors import UserError

_GROUPS = 10
AnySource = TypeVar("AnySource", bound=Source)


def make_imbalanced(labels: NDArray[np.integer], rule: str, seed: int = 2021) -> Indices:
    """Keep a share of each class that depends on its label.

    With C classes in G = min(10, C) groups, class i in group g = floor(i G / C):

    ``linear``: (g + 1) / G; ``exponential``: exp(g + 1 - G); ``longtail:RATIO``: RATIO^(-i / (C - 1)), largest class
    first.

    A class of n images keeps int(share * n) of them: the first ones after ``sklearn.utils.shuffle`` with the same
    seed for every class, as the authors of the paper did (the rule printed in the paper differs from the one they
    ran).

    Args:
        labels: (N,) class of each image.
        rule: ``linear``, ``exponential`` or ``longtail:RATIO``.
        seed: decides which images of a class are kept.

    Returns:
        Numbers of the kept images, ascending.
    """
    from sklearn.utils import shuffle

    classes = int(labels.max()) + 1
    kept = []
    for label, fraction in enumerate(class_fractions(rule, classes)):
        members = np.flatnonzero(labels == label)
        if len(members):
            kept.append(shuffle(members, random_state=seed)[: int(fraction * len(members))])
    return np.sort(np.concatenate(kept)).astype(np.int64)


def class_fractions(rule: str, classes: int) -> NDArray[np.float64]:
    """(C,) the share of each class that a rule keeps."""
    number: NDArray[np.float64] = np.arange(classes, dtype=np.float64)
    groups = min(_GROUPS, classes)
    group = number * groups // classes
    name, _, argument = rule.partition(":")
    if rule == "linear":
        return (group + 1) / groups
    if rule == "exponential":
        return np.exp(group + 1 - groups)
    if name == "longtail":
        try:
            ratio = float(argument)
        except ValueError:
            ratio = 0.0
        if not 1.0 <= ratio < np.inf:
            raise UserError(
                f"imbalance {rule!r}: write longtail:RATIO with a ratio of at least 1, such as longtail:100"
            )
        return np.power(ratio, -number / max(classes - 1, 1))
    raise UserError(f"there is no imbalance rule {rule!r}; known: linear, exponential, longtail:RATIO")


def imbalanced(source: AnySource, rule: str, seed: int = 2021) -> tuple[AnySource, Indices]:
    """Make a source unbalanced, with a note that says how; also return the numbers of the kept images.

    Raises:
        UserError: the source has no labels, or the rule is unknown.
    """
    labels = source.named().labels  # the numbers of classes may have gaps
    if labels is None:
        raise UserError(f"imbalance needs class labels, but {source.name} has none")
    indices = make_imbalanced(labels, rule, seed)
    kept = source.subset(indices)
    counts = kept.class_counts() or {}
    empty = [name for name, count in counts.items() if not count]
    note = f"imbalance {rule}: {len(kept):,} of {len(source):,} images, "
    note += f"{min(counts.values()):,} to {max(counts.values()):,} per class"
    if empty:
        note += f"; {len(empty)} of {len(counts)} classes are empty: {', '.join(empty[:10])}"
        note += ", ..." if len(empty) > 10 else ""
    return kept.with_notes(note), indices
