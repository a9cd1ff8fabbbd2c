"""The average of the weights: what it is, and that it is what a run keeps."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint
from cacr.training.optimization.average import Average
from cacr.training.pretrain import pretrain
from tests.conftest import TINY


def test_an_average_keeps_a_share_of_itself_at_each_step() -> None:
    model = nn.Linear(2, 1, bias=False)
    draws = torch.randn(4, 1, 2)
    with torch.no_grad():
        model.weight.copy_(draws[0])
        average = Average(model, keep=0.9)
        average.follow()  # before the first step they are equal
        expected = draws[0]
        for draw in draws[1:]:
            model.weight.copy_(draw)
            average.follow()
            expected = 0.9 * expected + 0.1 * draw
    with average.in_place():
        torch.testing.assert_close(model.weight.data, expected)
    assert torch.equal(model.weight.data, draws[-1])


@pytest.mark.trains
def test_a_run_keeps_its_average_and_resumes_it(classes: Path, tmp_path: Path) -> None:
    """Two halves of a run give what the whole gives, and the encoder is the average, not the last weights."""
    settings = {"data": str(classes), "average": 0.5, "schedule": "constant", "epochs": 2, **TINY}
    pretrain(settings | {"max_steps": 4}, tmp_path / "whole")
    pretrain(settings | {"max_steps": 2}, tmp_path / "halves")
    pretrain({"max_steps": 4}, tmp_path / "halves", resume=True)
    kept, halves = (load_file(tmp_path / name / "encoder.safetensors") for name in ("whole", "halves"))
    torch.testing.assert_close(halves, kept, atol=0, rtol=0)
    state = load_checkpoint(list_checkpoints(tmp_path / "whole" / "checkpoints")[-1][1])
    for name, mean in state["average"].items():
        if name.startswith("encoder."):
            assert torch.equal(kept[name.removeprefix("encoder.backbone.")], mean)
            assert not torch.equal(state["method"][name], mean)
