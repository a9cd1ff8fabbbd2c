"""Where moving everything together lowers a loss, in words."""

from collections.abc import Mapping
from typing import Any


def downhill(row: Mapping[str, Any]) -> str | None:
    """Say that moving everything together lowers the loss, where it does: above its value at a point.

    Args:
        row: a line of ``metrics.jsonl``; one without ``loss`` or ``trivial_loss`` says nothing.
    """
    loss, point = row.get("loss"), row.get("trivial_loss")
    if loss is None or point is None or not loss > point:
        return None
    return (
        f"the loss, {loss:.3g}, is above its value at a point, {point:.3g}: while it is, moving everything together "
        "lowers it"
    )
