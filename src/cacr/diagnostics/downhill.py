"""Say when moving all embeddings together lowers the loss."""

from collections.abc import Mapping
from typing import Any


def downhill(row: Mapping[str, Any]) -> str | None:
    """Say that moving all embeddings together lowers the loss, if it is above its value at a point.

    Args:
        row: a line of ``metrics.jsonl``; without ``loss`` or ``trivial_loss`` the result is None.
    """
    loss, point = row.get("loss"), row.get("trivial_loss")
    if loss is None or point is None or not loss > point:
        return None
    return (
        f"the loss, {loss:.3g}, is above {point:.3g}, its value if all embeddings are one point: moving all "
        "embeddings together still lowers it"
    )
