"""One process or many: the loss and every gradient are the same, gathered or passed around a ring."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from timm.layers import BatchNormAct2d
from torch import Tensor, nn

from cacr.data.order import share
from cacr.encoders import normalise_per_view, share_statistics
from cacr.losses import OBJECTIVES, CACRLoss, Objective, Pairs, in_batch, momentum, queued
from cacr.methods import exchanged, gather

VIEWS, INPUT, DIM = 3, 4, 5
UNEVEN, OTHERS = 7, (8, 5)
"""Images of the global batch: shared unevenly, as at the end of an epoch; evenly, and down to one a process."""

OPTIONS: dict[str, dict[str, Any]] = {"swav": {"dim": DIM}}

Found = tuple[Tensor, dict[str, Tensor]]
"""A loss, and the gradients of parameters by name."""


def _objectives() -> dict[str, Objective]:
    """Every registered objective, and the options that change what is reduced or averaged."""
    torch.manual_seed(2)
    made = {name: OBJECTIVES[name](**OPTIONS.get(name, {})) for name in OBJECTIVES}
    for kind in ("same", "cross", "cross_upper", "all"):
        made[f"cacr {kind}"] = OBJECTIVES["cacr"](negatives=kind)
    for option in ({"cost": "rbf", "tau_plus": 0.1}, {"cost": "rbf", "neg_grad": False}, {"margin": 0.5}):
        made[f"cacr {option}"] = OBJECTIVES["cacr"](**option)
    made["cacr held"] = OBJECTIVES["cacr"](neg_grad=False)
    made["cacr queue held"] = OBJECTIVES["cacr"](queue_grad=False)
    made["released_moco_v3 euclidean"] = OBJECTIVES["released_moco_v3"](cost="euclidean")
    made["triplet hard"] = OBJECTIVES["triplet"](mining="hard")
    return {name: objective.double() for name, objective in made.items()}


class _Model(nn.Module):
    """Queries and keys of two linear encoders: both receive gradients."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.query, self.key = nn.Linear(INPUT, DIM), nn.Linear(INPUT, DIM)
        self.register_buffer("queue", nn.functional.normalize(torch.randn(9, DIM), dim=-1))


Build = Callable[[_Model, Tensor, Tensor, Objective, Any], Pairs | Tensor]
BUILDERS: dict[str, Build] = {
    "in_batch": lambda model, q, k, loss, ring: q if ring is None else in_batch(q, loss.negatives, ring=ring),
    "momentum": lambda model, q, k, loss, ring: momentum(q, k, loss.negatives, ring=ring),
    "momentum, local crops": lambda model, q, k, loss, ring: momentum(q, k[:2], "all", ring=ring),
    "queued": lambda model, q, k, loss, ring: queued(q, k, model.queue, ring=ring),
    "queued, one direction": lambda model, q, k, loss, ring: queued(
        q[:1], k[1:], model.queue, key_views=[1, 2], ring=ring
    ),
}


def _refused(builder: str, name: str, objective: Objective, exchange: str) -> bool:
    """Pairs that an objective cannot be made of."""
    if exchange == "ring" and not objective.spreads:
        return True
    if name in ("swav", "barlow_twins"):  # no pairs at all
        return builder != "in_batch"
    if builder.endswith(("crops", "direction")) and name != "cacr":
        return True  # the same for all objectives
    return name.startswith("released_moco_v3") and builder == "queued"


Case = tuple[str, str, str, int]
"""Exchange, pairs, objective and the number of images."""


def _cases() -> dict[Case, Callable[[slice], Found]]:
    """Everything to compute together: a slice of the images -> loss and gradients."""
    cases: dict[Case, Callable[[slice], Found]] = {}
    for exchange in ("gather", "ring"):
        for builder in BUILDERS:
            for name, objective in _objectives().items():
                if not _refused(builder, name, objective, exchange):
                    for images in (UNEVEN, *OTHERS) if name == "cacr" else (UNEVEN,):
                        cases[exchange, builder, name, images] = _of_pairs(
                            exchange, builder, objective, images
                        )
    for kind in NORMS:
        for views in (1, VIEWS):
            cases["gather", f"batch norm, {views} parts", kind, UNEVEN] = _of_batch_norm(kind, views)
    return cases


def _of_pairs(exchange: Any, builder: str, objective: Objective, images: int) -> Callable[[slice], Found]:
    def compute(mine: slice) -> Found:
        model = _Model().double()
        generator = torch.Generator().manual_seed(images)
        x = torch.randn(VIEWS, images, INPUT, dtype=torch.float64, generator=generator)[:, mine]
        (q, k), ring = exchanged(exchange, model.query(x), model.key(x))
        loss = objective(BUILDERS[builder](model, q, k, objective, ring))
        parameters = dict(model.named_parameters()) | dict(objective.named_parameters())
        gradients = torch.autograd.grad(
            loss, list(parameters.values()), allow_unused=True, materialize_grads=True
        )
        return loss.detach(), dict(zip(parameters, gradients, strict=True))

    return compute


NORMS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.Sequential(nn.BatchNorm2d(INPUT), nn.ReLU(inplace=True)),
    "cumulative": lambda: nn.BatchNorm2d(INPUT, momentum=None),
    "without weights": lambda: nn.BatchNorm2d(INPUT, affine=False),
    "with activation": lambda: BatchNormAct2d(INPUT),
}


def _of_batch_norm(kind: str, views: int) -> Callable[[slice], Found]:
    """Synchronised statistics: loss, gradients and running statistics."""

    def compute(mine: slice) -> Found:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Conv2d(3, INPUT, 3), NORMS[kind](), nn.Flatten(), nn.Linear(INPUT * 9, DIM))
        share_statistics(model.double().train())
        normalise_per_view(model, views)
        x = torch.randn(VIEWS, UNEVEN, 3, 5, 5, dtype=torch.float64)[:, mine]
        z = model(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        loss = CACRLoss()(gather(z))
        loss.backward()
        found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        return loss.detach(), found | {name: buffer.double() for name, buffer in model.named_buffers()}

    return compute


def _work(rank: int, world_size: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size)
    results = {case: compute(share(case[-1], rank, world_size)) for case, compute in _cases().items()}
    # Data-parallel training averages gradients; here all of them at once, which is quicker.
    gradients = [gradient for _, found in results.values() for gradient in found.values()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, mean in zip(gradients, (flat / world_size).split(sizes), strict=True):
        gradient.copy_(mean.view_as(gradient))
    torch.save(results, f"{folder}/results{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def alone() -> dict[Any, Found]:
    """What one process computes without a process group, by gathering nothing."""
    return {case: compute(slice(None)) for case, compute in _cases().items()}


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_loss_and_gradients_do_not_depend_on_the_number_of_processes(
    world_size: int, alone: dict[Any, Found], tmp_path: Any
) -> None:
    if world_size == 1:
        _work(0, 1, str(tmp_path))
    else:
        mp.spawn(_work, args=(world_size, str(tmp_path)), nprocs=world_size)
    for rank in range(world_size):
        together = torch.load(tmp_path / f"results{rank}.pt", weights_only=True)
        assert together.keys() == alone.keys()
        for name, found in together.items():
            torch.testing.assert_close(
                found, alone[name], rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
            )
