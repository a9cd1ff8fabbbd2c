"""Every method learns: after a short run its encoder tells digits apart that the untrained one does not."""

from pathlib import Path

import pytest

from cacr import evaluate
from cacr.frameworks import FRAMEWORKS
from cacr.methods import METHODS
from cacr.training.pretrain import pretrain

pytestmark = pytest.mark.trains

SHORT = {
    "data": "digits",
    "width": 0.1,
    "batch_size": 64,
    "precision": "float32",
}

QUICK = ("cacr", "byol", "moco_v3")
"""Methods that learn enough in 100 steps; others have 200."""

LONGER = dict.fromkeys(("barlow_twins", "simsiam", "swav", "triplet"), 400)
"""Methods that need more steps to learn as much."""

SMALL = {method: {"image_size": 16} for method in ("cacr", "moco_v3")}
"""Methods whose steps are long, and that learn by a wide margin on a quarter of the pixels too."""

OF_IMAGES = [name for name in METHODS if not FRAMEWORKS[METHODS[name].framework].reads_captions]
"""Methods that digits, which have no captions, can be trained with."""

MARGIN = 0.08
"""By which nearest neighbours with ten labels per class must be better."""


@pytest.mark.parametrize(
    "method", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in OF_IMAGES]
)
def test_a_short_run_ends_above_the_untrained_encoder(method: str, tmp_path: Path) -> None:
    steps = LONGER.get(method, 100 if method in QUICK else 200)
    pretrain({**SHORT, **SMALL.get(method, {}), "method": method, "max_steps": steps}, tmp_path)
    results = evaluate(
        run=tmp_path,
        data="digits",
        protocol="knn",
        labels_per_class=10,
        reader="white",
        reader_components=64,
        baselines=("untrained",),
    )
    score = {result.subject: result.score for result in results}
    assert score["encoder"] > score["untrained"] + MARGIN, score
