"""Gathered losses: value and gradients equal a single process, for several world sizes and uneven shares."""

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from cacr.data.order import share
from cacr.losses import OBJECTIVES
from cacr.methods import InBatch, gather

VIEWS, DIM = 3, 5
BATCHES = (8, 7)
"""Images of the global batch: shared evenly, and unevenly as at the end of an epoch."""

OPTIONS = {"swav": {"dim": DIM}}


def _inputs(images: int) -> tuple[torch.Tensor, torch.nn.Linear]:
    generator = torch.Generator().manual_seed(images)
    x = torch.randn(VIEWS, images, 4, dtype=torch.float64, generator=generator)
    torch.manual_seed(1)
    return x, torch.nn.Linear(4, DIM, dtype=torch.float64)


def _loss_and_gradient(
    x: torch.Tensor, layer: torch.nn.Linear, objective: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    loss = objective(gather(layer(x)))
    (gradient,) = torch.autograd.grad(loss, [layer.weight])
    return loss.detach(), gradient


def _objectives() -> dict[str, Any]:
    """Every registered objective that the in-batch framework takes, and CACR with every kind of negatives."""
    torch.manual_seed(2)
    made = {name: OBJECTIVES[name](**OPTIONS.get(name, {})).double() for name in OBJECTIVES}
    kinds = ("same", "cross", "cross_upper", "all")
    return {name: loss for name, loss in made.items() if InBatch.refusal(loss) is None} | {
        f"cacr-{kind}": OBJECTIVES["cacr"](negatives=kind) for kind in kinds
    }


def _work(rank: int, world_size: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet{world_size}", rank=rank, world_size=world_size
    )
    results = {}
    for images in BATCHES:
        x, layer = _inputs(images)
        mine = x[:, share(images, rank, world_size)]
        for name, objective in _objectives().items():
            loss, gradient = _loss_and_gradient(mine, layer, objective)
            dist.all_reduce(gradient)  # data-parallel training averages the gradients over the processes
            results[name, images] = loss, gradient / world_size
    if rank == 0:
        torch.save(results, f"{folder}/results{world_size}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=[2, 4])
def gathered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """What several processes computed together, all cases inside one process group."""
    folder = tmp_path_factory.mktemp("gather")
    mp.spawn(_work, args=(request.param, str(folder)), nprocs=request.param)
    results: dict[Any, Any] = torch.load(folder / f"results{request.param}.pt", weights_only=True)
    return results


def test_loss_and_gradients_equal_one_process(gathered: dict[Any, Any]) -> None:
    assert len(gathered) == len(BATCHES) * len(_objectives())
    for (name, images), (loss, gradient) in gathered.items():
        expected = _loss_and_gradient(*_inputs(images), _objectives()[name])
        torch.testing.assert_close((loss, gradient), expected, rtol=1e-9, atol=1e-9)
