"""A protocol whose batches do not fit into the free memory names the setting with which they would."""

import pytest
import torch

from cacr.data import ArraySource
from cacr.encoders import build_encoder
from cacr.errors import UserError
from cacr.evaluation.data.labelled import LabelledData
from cacr.evaluation.data.task import Task
from cacr.evaluation.engine.network import Network
from cacr.evaluation.protocols.fewshot import FewShotSettings
from cacr.evaluation.registry import PROTOCOLS
from cacr.evaluation.settings import protocol_settings
from cacr.features import room
from cacr.reading.memory import HOLES
from cacr.training.cost.live import bytes_of_one, bytes_of_step

SIZE = 16
MORE = {"finetune": {"search": "quick"}, "linear-hcl": {"preset": "cifar"}}


@pytest.fixture
def task() -> Task:
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=SIZE, width=0.05)
    pixels, labels = torch.zeros(64, 3, SIZE, SIZE, dtype=torch.uint8), torch.arange(64).numpy() % 2
    train, test = (ArraySource(name, pixels, labels=labels) for name in ("train", "test"))
    return Task(encoder.eval(), LabelledData(train, test, "by hand", 2))


def _learning(task: Task, images: int) -> float:
    """Bytes of fine-tuning on so many images at once, with SGD."""
    network = Network(task.encoder, 2, 0, torch.device("cpu"))
    return HOLES * bytes_of_step(network, images, SIZE) + sum(p.nbytes for p in network.parameters())


@pytest.mark.parametrize(
    "protocol", ["finetune", "linear-hcl", "linear-moco", "linear-mocov3", "linear-paper"]
)
def test_a_batch_that_does_not_fit_is_refused_with_a_setting_that_would(
    protocol: str, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 20 * HOLES * bytes_of_one(task.encoder, SIZE)
    if protocol == "finetune":
        free = _learning(task, 20)
    monkeypatch.setattr(room, "free_memory", lambda: free)
    asked = {"batch_size": 32} | MORE.get(protocol, {})
    with pytest.raises(UserError) as told:
        PROTOCOLS[protocol](task, protocol_settings([protocol], asked)[protocol])
    name, _, value = str(told.value).rpartition("--set ")[2].partition("=")
    changed = protocol_settings([protocol], {name: value})[protocol]
    assert changed.batch_size == 16  # type: ignore[attr-defined]


def test_a_fixed_batch_that_does_not_fit_is_refused(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    free = _learning(task, 20)
    monkeypatch.setattr(room, "free_memory", lambda: free)
    with pytest.raises(UserError, match="images of 16 px needs more than"):
        PROTOCOLS["fewshot-finetune"](task, FewShotSettings(labels_per_class=30, draws=1))
