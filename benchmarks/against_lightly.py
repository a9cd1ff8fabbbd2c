"""Steps per second of the methods that lightly has, ours over lightly's: same encoder, heads, batch and views.

Both make float32 steps on the same views, which are there already: forward, backward and one SGD step. Our side is what
a run does: all views in one forward, images in the layout ``channels_last``, freed memory kept between steps. Lightly's
side is written as its own examples are: one forward for each view, its modules and losses. Each has a process of its
own, because the kept memory would help the other too; they take turns, and the median step of each counts.

    python benchmarks/against_lightly.py                 # after pip install 'cacr[bench]', on an idle machine
    python benchmarks/against_lightly.py --same-layout   # lightly's side with channels_last too
"""

import argparse
import copy
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

Step = Callable[[Tensor], None]
WARM_UP, IMAGES = 3, 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=float, default=0.25)
    parser.add_argument("--size", type=int, default=32, help="of the images, in pixels")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--methods", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument(
        "--same-layout", action="store_true", help="give lightly's side the layout channels_last too"
    )
    options = parser.parse_args()
    print("| method | steps/s | lightly | ratio |\n|---|---|---|---|")
    for name in options.methods:
        times = turns(name, options)
        mine, theirs = (1 / median(times[who]) for who in ("ours", "lightly"))
        print(f"| {name} | {mine:.2f} | {theirs:.2f} | {mine / theirs:.2f} |", flush=True)


def turns(name: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of every step of both contestants, which take turns."""
    context = multiprocessing.get_context("spawn")
    lines, processes = {}, []
    for who in ("ours", "lightly"):
        lines[who], other = context.Pipe()
        processes.append(context.Process(target=contestant, args=(who, name, options, other)))
        processes[-1].start()
        other.close()  # so that a process that dies ends the wait for its answer
    times: dict[str, list[float]] = {who: [] for who in lines}
    for number in range(options.rounds + WARM_UP):
        for who, line in lines.items():
            line.send("step")
            seconds = line.recv()
            if number >= WARM_UP:
                times[who].append(seconds)
    for line, process in zip(lines.values(), processes, strict=True):
        line.send("end")
        process.join()
    return times


def contestant(who: str, name: str, options: argparse.Namespace, line: Connection) -> None:
    """Make a step whenever asked to, and answer with its seconds."""
    from cacr.training.loop.memory import kept_memory

    torch.manual_seed(0)
    views = torch.randn(2 * options.batch_size, 3, options.size, options.size)
    if who == "ours" or options.same_layout:
        views = views.contiguous(memory_format=torch.channels_last)
    views = views.unflatten(0, (2, options.batch_size))
    step, encoder = make_ours(name, options)
    if who == "ours":
        with kept_memory():
            answer(step, views, line)
    else:
        if options.same_layout:
            encoder = encoder.to(memory_format=torch.channels_last)
        answer(make_peer(name, encoder), views, line)


def answer(step: Step, views: Tensor, line: Connection) -> None:
    while line.recv() == "step":
        started = time.perf_counter()
        step(views)
        line.send(time.perf_counter() - started)


def make_ours(name: str, options: argparse.Namespace) -> tuple[Step, nn.Module]:
    """A step of our method, as a run builds it, and a copy of its encoder in the layout that it was made with."""
    from cacr.training.building.networks import build_method
    from cacr.training.optimization.optimizers import build_optimizer
    from cacr.training.settings.check import check_settings
    from cacr.training.settings.described import Described
    from cacr.training.settings.layers import with_recipe
    from cacr.training.settings.resolve import resolve

    values = {"data": "x", "method": name, "encoder": "small_alexnet", "width": options.width}
    values |= {
        "image_size": options.size,
        "batch_size": options.batch_size,
        "epochs": 1,
        "first_layer": "random",
        "optimizer": "sgd",
    }
    data = Described("x", IMAGES, options.size, in_memory=True)
    settings = resolve(check_settings(with_recipe(values)), data, world_size=1, device=torch.device("cpu"))
    method, _ = build_method(settings)
    encoder = copy.deepcopy(method.encoder)
    if name == "moco_v2":
        method.enqueued.fill_(len(method.queue))  # full, as lightly's is from the first step
    optimizer = build_optimizer(settings, method.train())
    if settings.channels_last:
        method = method.to(memory_format=torch.channels_last)

    def step(views: Tensor) -> None:
        method.before_step(1, 100, 0)
        method([views])["loss"].backward()
        method.hold_gradients()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        method.after_step(1, 100)

    return step, encoder


def make_peer(name: str, encoder: Any) -> Step:
    """A step with lightly's modules, of the widths that ours has."""
    from cacr.encoders.heads import default_dim, default_hidden

    features, width = encoder.feature_dim, encoder.info.width
    head = {"swav": "simclr", "vicreg": "barlow_twins", "lejepa": "simclr_v2"}.get(name, name)
    hidden = default_hidden(head, features, width)
    parts, loss, after = PEERS[name](encoder, features, hidden, default_dim(head, lambda: features, width))
    optimizer = torch.optim.SGD(
        [p for p in parts.parameters() if p.requires_grad], lr=0.01, momentum=0.9, fused=True
    )

    def step(views: Tensor) -> None:
        loss(*views).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        after()

    return step


def _nothing() -> None:
    return None


def _byol(encoder: nn.Module, features: int, hidden: int, dim: int) -> Any:
    from lightly.loss import NegativeCosineSimilarity
    from lightly.models.modules import BYOLPredictionHead, BYOLProjectionHead
    from lightly.models.utils import deactivate_requires_grad, update_momentum

    student = nn.Sequential(encoder, BYOLProjectionHead(features, hidden, dim))
    predictor, teacher = BYOLPredictionHead(dim, hidden, dim), copy.deepcopy(student)
    deactivate_requires_grad(teacher)
    cosine = NegativeCosineSimilarity()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        p = [predictor(student(view)) for view in (x, y)]
        with torch.no_grad():
            z = [teacher(view) for view in (x, y)]
        return (cosine(p[0], z[1]) + cosine(p[1], z[0])) / 2  # type: ignore[no-any-return]

    parts = nn.ModuleList([student, predictor])
    return parts, loss, lambda: update_momentum(student, teacher, 0.996)


def _simsiam(encoder: nn.Module, features: int, hidden: int, dim: int) -> Any:
    from lightly.loss import NegativeCosineSimilarity
    from lightly.models.modules import SimSiamPredictionHead, SimSiamProjectionHead

    student = nn.Sequential(encoder, SimSiamProjectionHead(features, hidden, dim))
    predictor, cosine = SimSiamPredictionHead(dim, dim // 4, dim), NegativeCosineSimilarity()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        z = [student(view) for view in (x, y)]
        p = [predictor(each) for each in z]
        return (cosine(p[0], z[1].detach()) + cosine(p[1], z[0].detach())) / 2  # type: ignore[no-any-return]

    return nn.ModuleList([student, predictor]), loss, _nothing


def _swav(encoder: nn.Module, features: int, hidden: int, dim: int) -> Any:
    from lightly.loss import SwaVLoss
    from lightly.models.modules import SwaVProjectionHead, SwaVPrototypes

    student = nn.Sequential(encoder, SwaVProjectionHead(features, hidden, dim))
    prototypes, swapped = SwaVPrototypes(dim, IMAGES // 100), SwaVLoss()  # as many as ours

    def loss(x: Tensor, y: Tensor) -> Tensor:
        z = [nn.functional.normalize(student(view), dim=1) for view in (x, y)]
        return swapped([prototypes(each) for each in z], [])  # type: ignore[no-any-return]

    return nn.ModuleList([student, prototypes]), loss, prototypes.normalize


def _of_views(name: str) -> Callable[..., Any]:
    def make(encoder: nn.Module, features: int, hidden: int, dim: int) -> Any:
        from lightly.loss import BarlowTwinsLoss, VICRegLoss
        from lightly.models.modules import BarlowTwinsProjectionHead

        student = nn.Sequential(encoder, BarlowTwinsProjectionHead(features, hidden, dim))
        criterion = BarlowTwinsLoss() if name == "barlow_twins" else VICRegLoss()
        return student, lambda x, y: criterion(student(x), student(y)), _nothing

    return make


def _simclr(encoder: nn.Module, features: int, hidden: int, dim: int) -> Any:
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead

    student = nn.Sequential(encoder, SimCLRProjectionHead(features, hidden, dim))
    criterion = NTXentLoss(temperature=0.1)
    return student, lambda x, y: criterion(student(x), student(y)), _nothing


def _moco_v2(encoder: nn.Module, features: int, hidden: int, dim: int) -> Any:
    from lightly.loss import NTXentLoss
    from lightly.models.modules import MoCoProjectionHead
    from lightly.models.utils import deactivate_requires_grad, update_momentum

    student = nn.Sequential(encoder, MoCoProjectionHead(features, hidden, dim))
    teacher = copy.deepcopy(student)
    deactivate_requires_grad(teacher)
    criterion = NTXentLoss(
        temperature=0.2, memory_bank_size=(IMAGES // 2, dim)
    )  # ours: whole batches of that

    def loss(x: Tensor, y: Tensor) -> Tensor:
        query = student(x)
        with torch.no_grad():
            key = teacher(y)
        return criterion(query, key)  # type: ignore[no-any-return]

    return student, loss, lambda: update_momentum(student, teacher, 0.999)


def _lejepa(encoder: nn.Module, features: int, hidden: int, dim: int) -> Any:
    from lightly.loss import LeJEPALoss
    from lightly.models.modules import LeJEPAProjectionHead

    student = nn.Sequential(encoder, LeJEPAProjectionHead(features, hidden, dim))
    criterion = LeJEPALoss()  # asks for a local view: here the second, which is as large as the first
    return (
        student,
        lambda x, y: criterion(global_proj=student(x)[None], local_proj=student(y)[None]),
        _nothing,
    )


PEERS: dict[str, Callable[..., Any]] = {
    "simclr": _simclr,
    "moco_v2": _moco_v2,
    "byol": _byol,
    "simsiam": _simsiam,
    "swav": _swav,
    "barlow_twins": _of_views("barlow_twins"),
    "vicreg": _of_views("vicreg"),
    "lejepa": _lejepa,
}


if __name__ == "__main__":
    main()
