"""Two processes: the queue, shuffled and synchronised batch norm, uneven shares included."""

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from cacr.data.order import share
from cacr.encoders import share_statistics
from cacr.frameworks import Queue
from tests.conftest import Once
from tests.frameworks.making import make_framework, make_views
from tests.started import work_together

pytestmark = pytest.mark.trains

IMAGES = (8, 7)
"""Images of the global batch of each step: shared evenly, and unevenly."""


def _mine(views: list[Tensor], rank: int, world: int) -> list[Tensor]:
    return [x[:, share(x.shape[1], rank, world)] for x in views]


def _queue_after_steps(rank: int = 0, world: int = 1) -> dict[str, Tensor]:
    method = make_framework("queue", queue_size=16, ema=0.5)
    optimizer = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], lr=0.5)
    for step, images in enumerate(IMAGES):
        parts = method(_mine(make_views(3, images, local=1, seed=step), rank, world))
        parts["loss"].backward()
        for group in optimizer.param_groups:
            for p in group["params"]:
                if world > 1:
                    dist.all_reduce(p.grad)
                p.grad /= world
        optimizer.step()
        optimizer.zero_grad()
        method.after_step(step + 1, len(IMAGES))
    return {**method.state_dict(), "loss": parts["loss"].detach()}


def _synchronised(rank: int = 0, world: int = 1) -> dict[str, Tensor]:
    """Loss, gradients and running statistics of a head with batch norm whose statistics are shared."""
    method = make_framework("in_batch", norm=True)
    share_statistics(method)
    for images in IMAGES:
        loss = method(_mine(make_views(2, images, seed=images), rank, world))["loss"]
        (loss * images).backward()
    gradients = {f"grad {n}": p.grad for n, p in method.named_parameters() if p.grad is not None}
    for gradient in gradients.values():
        if world > 1:
            dist.all_reduce(gradient)
        gradient /= world
    return {**gradients, **method.state_dict(), "loss": loss.detach()}


def _shuffled(rank: int) -> dict[str, Tensor]:
    method = make_framework("queue", norm=True)
    assert isinstance(method, Queue)
    views = _mine(make_views(1, 8), rank, 2)
    torch.manual_seed(5 + rank)  # the order is that of the first process
    return {"keys": method.key_encoder(views[0])[0]}


def _work(rank: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    results = {
        "queue": _queue_after_steps(rank, 2),
        "synchronised": _synchronised(rank, 2),
        "shuffled": _shuffled(rank),
    }
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(once: Once) -> list[dict[str, Any]]:
    """What each of two processes found."""

    def build(folder: Path) -> None:
        folder.mkdir()
        work_together(_work, 2, str(folder))

    folder = once("two", build)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize(("name", "alone"), [("queue", _queue_after_steps), ("synchronised", _synchronised)])
def test_two_processes_equal_one(found: list[dict[str, Any]], name: str, alone: Any) -> None:
    expected = alone()
    for results in found:
        torch.testing.assert_close(results[name], expected, rtol=1e-9, atol=1e-9)


def test_shuffled_batch_norm_takes_statistics_of_images_from_both(found: list[dict[str, Any]]) -> None:
    method = make_framework("queue", norm=True)
    assert isinstance(method, Queue)
    ((images,),) = make_views(1, 8)
    torch.manual_seed(5)
    order = torch.randperm(8)
    assert sorted(order[:4].tolist()) not in ([0, 1, 2, 3], [4, 5, 6, 7])
    expected = torch.empty(8, found[0]["shuffled"]["keys"].shape[1], dtype=torch.float64)
    for part in order.split(4):
        encoder, head = copy.deepcopy(method.key_encoder.copies)
        expected[part] = head(encoder(images[part])).detach()
    actual = torch.cat([results["shuffled"]["keys"] for results in found])
    torch.testing.assert_close(actual, expected)
