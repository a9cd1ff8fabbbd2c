"""The figures of a ledger: what their cells measure, and what is drawn from records alone."""

import pytest

from cacr.ledger import ITEMS
from cacr.ledger.scales import Match, sheet_of


@pytest.mark.parametrize("match", ["views", "steps"])
def test_a_short_run_of_figure_a7_is_probed_several_times_at_equal_shares(match: Match) -> None:
    for cell in sheet_of(ITEMS["figureA7"], "mini", [0], match=match).cells.values():
        steps, every = cell.settings["max_steps"], cell.settings["probe_every_steps"]
        probed = {0, *range(every, steps, every), steps}
        assert len(probed) >= 5
        assert steps % every < every / 20  # the last one before the end is not next to it
