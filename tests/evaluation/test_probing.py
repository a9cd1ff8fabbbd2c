"""A linear classifier every few epochs is that of ``cacr evaluate``, and changes nothing that is learned."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from cacr.errors import UserError
from cacr.evaluation import evaluate_run
from cacr.evaluation.probing import observe
from cacr.runs.run import Run
from cacr.training.pretrain import pretrain
from tests.conftest import TINY


@pytest.mark.trains
def test_the_probe_is_that_of_evaluate_and_leaves_the_run_alone(classes: Path, tmp_path: Path) -> None:
    settings = {"data": str(classes), "epochs": 2, **TINY}
    pretrain(settings | {"probe_every_epochs": 1}, tmp_path / "probed", observe=observe)
    pretrain(settings, tmp_path / "plain", observe=observe)
    probed, plain = Run.open(tmp_path / "probed"), Run.open(tmp_path / "plain")
    weights, others = (load_file(run.path / "encoder.safetensors") for run in (probed, plain))
    assert all((weights[name] == others[name]).all() for name in weights)
    points = probed.points("probe")
    assert [epoch for epoch, _ in points] == [0.0, 1.0, 2.0]
    assert not plain.points("probe")
    found = evaluate_run(probed.path, {"data": str(classes), "protocol": "linear", "baselines": ()})
    assert points[-1][1] == pytest.approx(found[0].score, abs=1e-6)


def test_data_without_labels_cannot_be_probed(photos: Path, tmp_path: Path) -> None:
    settings = {"data": str(photos), "epochs": 1, "probe_every_epochs": 1, **TINY}
    with pytest.raises(UserError, match="no labels"):
        pretrain(settings, tmp_path / "run", observe=observe)


@pytest.mark.trains
@pytest.mark.parametrize(
    ("every", "expected"),
    [
        ({"measure_every_steps": 4, "probe_every_epochs": 1}, [0, 5, 7]),  # an epoch has five steps
        ({"measure_every_steps": 2, "probe_every_steps": 3}, [0, 3, 6, 7]),
        ({"probe_every_steps": 3}, [0, 3, 6, 7]),
        ({"probe_every_epochs": 5}, [0, 7]),
    ],
)
def test_a_run_measured_by_steps_is_probed_on_its_way_and_at_its_end(
    every: dict[str, int], expected: list[int], classes: Path, tmp_path: Path
) -> None:
    settings = {"data": str(classes), **TINY, "epochs": 2, "max_steps": 7, **every}
    pretrain(settings, tmp_path / "run", observe=observe)
    assert [row["step"] for row in Run.open(tmp_path / "run").rows if "probe" in row] == expected
