"""The networks behind the page: the head of the last checkpoint, whatever the framework, or none."""

import shutil
from pathlib import Path

import pytest
import torch

from cacr.data import open_source
from cacr.features import encode
from cacr.frameworks import FRAMEWORKS
from cacr.losses import OBJECTIVES
from cacr.reporting.model import load_model
from cacr.runs.run import Run
from cacr.training.building.checkpoints import load_latest
from cacr.training.pretrain import pretrain
from tests.conftest import TINY

pytestmark = pytest.mark.trains

TRAINED = [
    name
    for name in FRAMEWORKS.names()
    if FRAMEWORKS[name].refusal(OBJECTIVES["cacr"]()) is None and not FRAMEWORKS[name].reads_captions
]


@pytest.mark.parametrize("framework", TRAINED)
def test_embeddings_are_those_of_the_checkpoint(framework: str, photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrain({"data": str(photos), "framework": framework, **TINY, "max_steps": 1}, run)
    state = load_latest(run / "checkpoints", warn=print)
    model = load_model(Run.open(run))
    assert state is not None and model.head is not None and model.note == ""
    assert model.head.state_dict()
    for name, value in model.head.state_dict().items():
        assert torch.equal(value, state["method"][f"head.{name}"])
    features = encode(model.encoder, open_source(str(photos))).values
    expected = torch.nn.functional.normalize(model.head(features), dim=1)
    assert torch.allclose(model.embed(features), expected, atol=1e-6)


def test_without_a_checkpoint_features_stand_for_embeddings(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    shutil.rmtree(run / "checkpoints")
    model = load_model(Run.open(run))
    assert model.head is None and "no checkpoint" in model.note
    assert model.run.t_neg == load_model(Run.open(trained)).run.t_neg == 4.0
    features = torch.randn(5, model.encoder.feature_dim)
    assert torch.allclose(model.embed(features), torch.nn.functional.normalize(features, dim=1), atol=1e-6)


def test_a_temperature_is_a_t_neg(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    config = (run / "config.yaml").read_text()
    config = config.replace("objective: cacr", "objective: info_nce").replace(
        "t_neg: 4.0", "temperature: 0.25"
    )
    (run / "config.yaml").write_text(config)
    shutil.rmtree(run / "checkpoints")
    assert load_model(Run.open(run)).run.t_neg == 2.0
