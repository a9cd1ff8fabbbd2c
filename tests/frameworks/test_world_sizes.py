"""One process or many: the loss and every gradient are the same, gathered or passed around a ring.

Every registered framework with every objective that it takes, and every method, in float64. Left out on
purpose: ``in_batch: local`` of the queue framework, the authors' form, in which the negatives are those of a process
alone.
"""

import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from timm.layers import BatchNormAct2d
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from cacr.data.order import share
from cacr.encoders import normalise_per_view, share_statistics
from cacr.frameworks import FRAMEWORKS, exchanged, gather
from cacr.losses import OBJECTIVES, CACRLoss, Objective, Pairs, in_batch, momentum, queued
from cacr.methods import METHODS
from tests.conftest import Once
from tests.frameworks.making import make_framework, make_method, make_views
from tests.losses.making import make_objective
from tests.losses.test_calls import PAPER
from tests.started import work_together

pytestmark = pytest.mark.trains

WORLD_SIZES = (4, 2, 1)
VIEWS, INPUT, DIM = 3, 4, 5
UNEVEN, EVEN, FEWEST = 7, 8, 5
"""Images of the global batch: shared unevenly, as at the end of an epoch; evenly; down to one a process of four."""

OURS = ("image_text", "in_batch", "momentum", "queue", "siamese", "prototypes")
OF_VIEWS = ("barlow_twins", "vicreg", "lejepa")
REFUSED = {
    *(("in_batch", name) for name in ("byol", "clip", "simsiam", "swav")),
    *((framework, name) for framework in ("momentum", "siamese") for name in (*OF_VIEWS, "clip", "swav")),
    *(("queue", name) for name in (*OF_VIEWS, "byol", "clip", "released_moco_v3", "simsiam", "swav")),
    *(("prototypes", name) for name in PAPER - {"swav"}),
    *(("image_text", name) for name in (*OF_VIEWS, "adaclr", "ascl", "byol", "simsiam", "swav")),
}
"""Of the paper's objectives, those that a framework cannot train; all others it must."""

Found = tuple[Tensor, dict[str, Tensor]]
"""A loss, and by name the gradients of parameters, or statistics that all processes have in common."""

Compute = Callable[[int, int], Found]
"""Rank and number of processes -> what is found there."""


def _cases() -> Iterator[tuple[str, Compute]]:
    for exchange in ("gather", "ring"):
        for framework in FRAMEWORKS:
            for objective in OBJECTIVES:
                if _takes(exchange, framework, objective):
                    yield (
                        f"{exchange}, {framework}, {objective}",
                        _of_framework(exchange, framework, objective, UNEVEN),
                    )
            for images, options in (
                (UNEVEN, {"local": 1, "negatives": "all"}),
                (EVEN, {}),
                (FEWEST, {}),
                (UNEVEN, {"norm": True}),
                (UNEVEN, {"chunk": 2, "data_parallel": True}),
                (UNEVEN, {"t_neg_schedule": "spread", "chunk": 2, "data_parallel": True}),
                (UNEVEN, {"t_neg_schedule": "learned", "captions": 2, "data_parallel": True}),
            ):
                if _is_taken(framework, "cacr") and ("captions" not in options or framework == "image_text"):
                    yield (
                        f"{exchange}, {framework}, {images} images, {options}",
                        _of_framework(exchange, framework, "cacr", images, **options),
                    )
        for name in METHODS:
            options: dict[str, Any] = dict(METHODS[name].objective_options)
            if exchange == "gather" or OBJECTIVES[METHODS[name].objective](**options).supports_ring:
                yield f"{exchange}, method {name}", _of_method(exchange, name)
        for name, objective in _variants().items():
            for kind, build in BUILDERS.items():
                if (objective.supports_ring or exchange == "gather") and (
                    kind == "in_batch" or "queue" in name
                ):
                    yield f"{exchange}, {kind}, {name}", _of_pairs(exchange, build, objective)
    for kind in NORMS:
        yield f"batch norm {kind}", _of_batch_norm(kind)


def _takes(exchange: str, framework: str, objective: str) -> bool:
    method = make_framework(framework, objective) if _is_taken(framework, objective) else None
    return method is not None and (exchange == "gather" or method.objective.supports_ring)


def _is_taken(framework: str, objective: str) -> bool:
    kind = FRAMEWORKS[framework]
    options = kind.objective_options(OBJECTIVES[objective], {})
    return kind.refusal(make_objective(objective, DIM, **options)) is None


def _of_framework(
    exchange: Any,
    framework: str,
    objective: str,
    images: int,
    *,
    norm: bool = False,
    local: int = 0,
    chunk: int | None = None,
    data_parallel: bool = False,
    **options: Any,
) -> Compute:
    def compute(rank: int, world_size: int) -> Found:
        unused = FRAMEWORKS[framework].meaningless_options & options.keys()
        given = {name: value for name, value in options.items() if name not in unused}
        method = make_framework(framework, objective, norm=norm, **given).train()
        method.exchange, method.encode_chunk = exchange, chunk
        if norm:
            share_statistics(method)
        views = make_views(
            VIEWS, images, local=local, framework=framework, captions=options.get("captions", 1)
        )
        mine = [x[:, share(images, rank, world_size)] for x in views]
        model = DistributedDataParallel(method) if data_parallel and world_size > 1 else method
        loss = model(mine)["loss"]
        loss.backward()
        return loss.detach(), _gradients(method) | _statistics(method)

    return compute


def _of_method(exchange: Any, name: str) -> Compute:
    """Two steps of a method with its own head and predictor and synchronised batch norm.

    The second is on an uneven batch: queues are in use by then.
    """

    def compute(rank: int, world_size: int) -> Found:
        method = make_method(name).train()
        method.exchange = exchange
        share_statistics(method)
        for step, images in enumerate((EVEN, UNEVEN)):
            method.before_step(step + 5, 10, epoch=step)
            views = make_views(2, images, seed=step, framework=METHODS[name].framework)
            loss = method([x[:, share(images, rank, world_size)] for x in views])["loss"]
            loss.backward()
            method.hold_gradients()
            method.after_step(step + 6, 10)
        return loss.detach(), _gradients(method) | _statistics(method)

    return compute


def _gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def _statistics(model: nn.Module) -> dict[str, Tensor]:
    return {
        name: buffer.double()
        for name, buffer in model.named_buffers()
        if "running" in name or "t_now" in name
    }


def _variants() -> dict[str, Objective]:
    """Options that change what is reduced or averaged."""
    cacr: list[dict[str, Any]] = [{"negatives": kind} for kind in ("cross", "cross_upper", "all")]
    cacr += [{"cost": "rbf", "tau_plus": 0.1}, {"cost": "rbf", "neg_grad": False}]
    cacr += [{"t_neg_schedule": "spread"}, {"margin": 0.5}, {"neg_grad": False}, {"queue_grad": False}]
    made: dict[str, Objective] = {f"cacr {options}": CACRLoss(**options) for options in cacr}
    made["released_moco_v3 euclidean"] = OBJECTIVES["released_moco_v3"](cost="euclidean")  # type: ignore[call-arg]
    made["triplet hard"] = OBJECTIVES["triplet"](mining="hard")  # type: ignore[call-arg]
    return made


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
    "momentum, local crops": lambda model, q, k, loss, ring: momentum(q, k[:2], "all", ring=ring),
    "queued": lambda model, q, k, loss, ring: queued(q, k, model.queue, ring=ring),
    "queued, one direction": lambda model, q, k, loss, ring: queued(
        q[:1], k[1:], model.queue, key_views=[1, 2], ring=ring
    ),
}


def _of_pairs(exchange: Any, build: Build, objective: Objective) -> Compute:
    def compute(rank: int, world_size: int) -> Found:
        model = _Model().double()
        x = torch.randn(VIEWS, UNEVEN, INPUT, dtype=torch.float64)[:, share(UNEVEN, rank, world_size)]
        (q, k), ring = exchanged(exchange, model.query(x), model.key(x))
        loss = objective(build(model, q, k, objective, ring))
        loss.backward()
        return loss.detach(), _gradients(model)

    return compute


NORMS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.Sequential(nn.BatchNorm2d(INPUT), nn.ReLU(inplace=True)),
    "cumulative": lambda: nn.BatchNorm2d(INPUT, momentum=None),
    "without weights": lambda: nn.BatchNorm2d(INPUT, affine=False),
    "with activation": lambda: BatchNormAct2d(INPUT),
}


def _of_batch_norm(kind: str) -> Compute:
    def compute(rank: int, world_size: int) -> Found:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Conv2d(3, INPUT, 3), NORMS[kind](), nn.Flatten(), nn.Linear(INPUT * 9, DIM))
        share_statistics(model.double().train())
        normalise_per_view(model, VIEWS)
        images = torch.randn(VIEWS, UNEVEN, 3, 5, 5, dtype=torch.float64)
        x = images[:, share(UNEVEN, rank, world_size)]
        loss = CACRLoss()(gather(model(x.flatten(0, 1)).unflatten(0, x.shape[:2])))
        loss.backward()
        return loss.detach(), _gradients(model) | _statistics(model)

    return compute


def _work(rank: int, folder: str) -> None:
    """In each of four processes: what it finds among four, among the first two, and the first one alone."""
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    for world_size in WORLD_SIZES:
        if rank < world_size:
            meet = f"file://{folder}/meet{world_size}"
            dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=world_size)
            torch.save(_averaged(rank, world_size), f"{folder}/results{rank}of{world_size}.pt")
            dist.destroy_process_group()


def _averaged(rank: int, world_size: int) -> dict[str, Found]:
    """All cases; data-parallel training averages gradients, here all of them at once, which is quicker."""
    results = {name: compute(rank, world_size) for name, compute in _cases()}
    gradients = [gradient for _, found in results.values() for gradient in found.values()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    means = (flat / world_size).split([gradient.numel() for gradient in gradients])
    for gradient, mean in zip(gradients, means, strict=True):
        gradient.copy_(mean.view_as(gradient))
    return results


def _start(folder: Path) -> None:
    folder.mkdir()
    work_together(_work, max(WORLD_SIZES), str(folder))


@pytest.fixture(scope="module")
def together(once: Once) -> Path:
    """The folder in which processes have left what they found together; they are started once for all sizes."""
    return once("world_sizes", _start)


@pytest.fixture(scope="module")
def alone(once: Once) -> dict[str, Found]:
    """What one process computes without a process group: nothing is exchanged and nothing chunked."""

    def build(folder: Path) -> None:
        folder.mkdir()
        torch.save({name: compute(0, 1) for name, compute in _cases()}, folder / "results.pt")

    found: dict[str, Found] = torch.load(once("alone", build) / "results.pt", weights_only=True)
    return found


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_p16_loss_and_gradients_do_not_depend_on_the_number_of_processes(
    world_size: int, alone: dict[str, Found], together: Path
) -> None:
    for rank in range(world_size):
        results = torch.load(together / f"results{rank}of{world_size}.pt", weights_only=True)
        assert results.keys() == alone.keys()
        for name, found in results.items():
            torch.testing.assert_close(
                found, alone[name], rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
            )


def test_every_framework_and_objective_is_among_the_cases(alone: dict[str, Found]) -> None:
    gathered = {name for name in OBJECTIVES if not OBJECTIVES[name]().supports_ring}
    # they compare whole batches, not pairs, or look for single keys
    assert gathered & PAPER == {*OF_VIEWS, "ascl", "adaclr"}
    assert {name for name in METHODS if f"gather, method {name}" in alone} == set(METHODS)
    for name in ("byol", "simsiam", "moco_v3"):  # their predictors have batch norm
        assert "predictor.1.running_var" in alone[f"gather, method {name}"][1]
    assert all(_is_taken(*pair) == (pair not in REFUSED) for pair in product(OURS, PAPER))
    for framework, objective in product(FRAMEWORKS, OBJECTIVES):
        taken = _is_taken(framework, objective)
        assert (f"gather, {framework}, {objective}" in alone) == taken
        assert (f"ring, {framework}, {objective}" in alone) == (taken and objective not in gathered)
