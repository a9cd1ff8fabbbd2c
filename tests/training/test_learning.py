"""Every framework learns: after a short run its encoder tells digits apart that the untrained one does not."""

from pathlib import Path

import pytest

from cacr import evaluate
from cacr.frameworks import FRAMEWORKS
from cacr.training.pretrain import pretrain

pytestmark = pytest.mark.trains

SHORT = {
    "data": "digits",
    "width": 0.1,
    "views": 2,
    "batch_size": 64,
    "max_steps": 100,
    "precision": "float32",
}

MARGIN = 0.1
"""By which nearest neighbours with ten labels a class must be better; 0.24 to 0.28 were seen with twice the steps."""


@pytest.mark.parametrize("framework", FRAMEWORKS.names())
def test_a_short_run_ends_above_the_untrained_encoder(framework: str, tmp_path: Path) -> None:
    pretrain({**SHORT, "framework": framework}, tmp_path)
    results = evaluate(
        run=tmp_path, data="digits", protocol="knn", labels_per_class=10, baselines=("untrained",)
    )
    score = {result.subject: result.score for result in results}
    assert score["encoder"] > score["untrained"] + MARGIN, score
