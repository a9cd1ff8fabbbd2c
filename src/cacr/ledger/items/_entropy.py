"""Shared parts of the figures of conditional entropy: six systems, and the claim about imbalance."""

from cacr.ledger.item import Claim, Column, Item
from cacr.ledger.items._small import CACR_4, CL, NEEDS, SIX

CURVES = ("entropy", "max_entropy", "negative_distance", "uniformity")


def entropy_item(
    name: str, title: str, columns: tuple[Column, ...], *, unbalanced: str, no_mini: str = ""
) -> Item:
    """A figure of entropy against epochs; its claim is about the column ``unbalanced``."""
    claim = Claim.above(
        f"On {unbalanced}, CACR with four positives ends with a higher conditional entropy than CL.",
        (CACR_4.name, unbalanced),
        (CL.name, unbalanced),
        curve="entropy",
    )
    return Item(name, title, SIX, columns, (claim,), needs=NEEDS, no_mini=no_mini, curves=CURVES)
