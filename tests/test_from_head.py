"""Fine-tuning from the first layer of the head (SimCLR v2), from the run that keeps it to the result."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cacr.encoders import build_encoder, build_head
from cacr.encoders.head_file import HEAD1
from cacr.encoders.heads import first_layers
from cacr.evaluation.engine.finetuning import FINETUNE_RECIPES, make_optimizer
from cacr.evaluation.engine.network import Network
from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint
from cacr.training.pretrain import pretrain
from tests.conftest import TINY, Once, Run

pytestmark = pytest.mark.trains

SHORT = ("--set", "search=quick", "--set", "epochs=1", "--set", "min_steps=3", "--set", "batch_size=8")


@pytest.fixture(scope="module")
def simclr_v2(once: Once, classes: Path) -> Path:
    """A run of SimCLR v2."""
    settings = {**TINY, "data": str(classes), "method": "simclr_v2", "views": 2, "max_steps": 3}
    return once("simclr_v2", lambda folder: pretrain(settings, folder))


def test_a_run_keeps_the_first_layer_of_its_head(simclr_v2: Path, trained: Path) -> None:
    state = load_checkpoint(list_checkpoints(simclr_v2 / "checkpoints")[-1][1])["method"]
    kept = load_file(simclr_v2 / HEAD1)
    assert set(kept) == {
        "0.weight",
        *(f"1.{n}" for n in ("weight", "bias", "running_mean", "running_var")),
    } | {"1.num_batches_tracked"}
    for name, tensor in kept.items():
        assert torch.equal(tensor, state[f"head.{name}"]), name
    at_start = load_file(simclr_v2 / "start" / HEAD1)
    assert not torch.equal(at_start["0.weight"], kept["0.weight"])
    assert not (trained / HEAD1).exists()


def test_the_kept_layer_is_under_the_classifier_and_learns_with_the_backbone() -> None:
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05)
    layer = first_layers(build_head("simclr_v2", encoder.feature_dim, dim=4, hidden=6)).eval()
    network = Network(encoder, 3, 0, torch.device("cpu"), layer).eval()
    images = torch.randn(5, 3, 16, 16)
    network.begin_at([images])
    below = layer(encoder.eval()(images)).detach()
    torch.testing.assert_close(network.norm.running_mean, below.mean(0))
    expected = network.head((below - below.mean(0)) / (below.var(0, correction=0) + network.norm.eps).sqrt())
    torch.testing.assert_close(network(images), expected)
    optimizer = make_optimizer(network, FINETUNE_RECIPES["vit"], 0.1, 0.05)
    groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    assert set(groups) == {id(parameter) for parameter in network.parameters()}
    weight, norm = network.head1[0].weight, network.head1[1].weight
    assert (groups[id(weight)]["lr"], groups[id(weight)]["weight_decay"]) == (0.1, 0.05)
    assert (groups[id(norm)]["lr"], groups[id(norm)]["weight_decay"]) == (0.1, 0.0)
    before = [p.detach().clone() for p in (weight, next(network.backbone.parameters()))]
    network.train()(images).square().sum().backward()
    optimizer.step()
    after = [weight, next(network.backbone.parameters())]
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    torch.testing.assert_close(layer(encoder(images)), below)  # what it was made of stays as it was


def test_from_head1_by_the_command_line(simclr_v2: Path, classes: Path, tmp_path: Path, run: Run) -> None:
    copy = Path(shutil.copytree(simclr_v2, tmp_path / "run"))
    code, output = run(
        "evaluate", str(copy), "--data", str(classes), "--protocol", "finetune", "--set", "from=head1",
        "--set", "baselines=[untrained]", *SHORT,
    )  # fmt: skip
    assert code == 0, output
    found = [json.loads(file.read_text()) for file in (copy / "evaluation").glob("finetune-*.json")]
    assert {result["subject"] for result in found} == {"encoder", "untrained"}
    assert all(result["settings"]["from"] == "head1" for result in found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--set", "from=head1"), "from=head1 needs the first layer of a head next to the encoder"),
        (("--set", "from=head2"), "from must be 'features' or 'head1'"),
        (("--set", "form=head1"), "did you mean from"),
    ],
)
def test_what_cannot_be_is_told_before_any_image_is_read(
    options: tuple[str, ...], words: str, trained: Path, run: Run
) -> None:
    code, output = run(
        "evaluate", str(trained), "--data", "no-such-folder", "--protocol", "finetune", *options
    )
    assert code == 2 and words in output and "no-such-folder" not in output, output
