"""Views per second of whole training against the bare encoder and against lightly's SimCLR.

Three contestants train the same quarter-width ``small_alexnet`` on the same images, with the same batch and
number of views, each in a process of its own, in turns:

- ``cacr``: ``cacr pretrain`` as it is, with loading, views, objective and optimiser;
- ``bare``: forward and backward passes of the same encoder on a fixed random batch, in the same precision;
- ``lightly``: SimCLR as lightly's own examples write it (its transform on PIL images in loader workers); left out
  where it is not installed.

Goals: with two views, and with five, at least 0.95 of the bare encoder; less than 5 % of the time in wait for data; 3.5
times lightly. Each ratio is the median over the rounds of the ratio within a round.

    python benchmarks/end_to_end.py cifar10 --data-root DATA
    python benchmarks/end_to_end.py cifar10 --data-root DATA --against bare --numbers 2     the first goal alone
    python benchmarks/end_to_end.py cifar10 --data-root DATA --against bare --threads 1     processor time of one
                                                            thread, for a machine that others use too
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BATCH, WIDTH = 128, 0.25


def train_cacr(options: argparse.Namespace) -> dict[str, float]:
    from cacr import pretrain
    from cacr.runs.run import Run
    from cacr.training.loop import meter

    meter.time = SimpleNamespace(perf_counter=options.clock)  # what a run calls a second
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        pretrain(
            data=options.data,
            data_root=options.data_root,
            out=out,
            encoder="small_alexnet",
            width=WIDTH,
            views=options.views,
            batch_size=BATCH,
            epochs=1000,
            max_steps=options.steps,
            log_every_steps=1,
        )
        rows = Run.open(out).rows[options.steps // 4 :]  # the first steps warm caches
    rate = statistics.median(row["images_per_second"] for row in rows)
    return {
        "views_per_second": rate * options.views,
        "data_wait": statistics.mean(row["data_wait"] for row in rows),
    }


def train_bare(options: argparse.Namespace) -> dict[str, float]:
    import torch

    from cacr.encoders import build_encoder, build_head
    from cacr.training.processes.precision import has_fast_bf16

    encoder = build_encoder("small_alexnet", image_size=32, width=WIDTH)
    model = torch.nn.Sequential(encoder, build_head("linear", encoder.feature_dim))
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(BATCH * options.views, 3, 32, 32).to(memory_format=torch.channels_last)
    bf16 = has_fast_bf16(torch.device("cpu"))

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            out = model(x)
        out.float().square().sum().backward()
        model.zero_grad(set_to_none=True)

    return {"views_per_second": BATCH * options.views / _median_seconds(step, options)}


def train_lightly(options: argparse.Namespace) -> dict[str, float]:
    import torch
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform

    from cacr.data import open_source
    from cacr.encoders import build_encoder

    source = open_source(options.data, root=options.data_root)
    transform = SimCLRTransform(input_size=32, cj_strength=0.5, gaussian_blur=0.0)

    class Images(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(source)

        def __getitem__(self, index: int) -> Any:
            return transform(source.read(index))

    loader = torch.utils.data.DataLoader(
        Images(), batch_size=BATCH, shuffle=True, drop_last=True, num_workers=os.cpu_count() or 1
    )
    encoder = build_encoder("small_alexnet", image_size=32, width=WIDTH)
    head = SimCLRProjectionHead(encoder.feature_dim, 512, 128)
    criterion = NTXentLoss()
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.06)
    batches = iter(loader)

    def step() -> None:
        x0, x1 = next(batches)
        loss = criterion(head(encoder(x0)), head(encoder(x1)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    # Whole time over all steps: the workers' prefetched batches must not count as free.
    for _ in range(max(1, options.steps // 4)):
        step()
    started = time.perf_counter()
    for _ in range(options.steps):
        step()
    return {"views_per_second": 2 * BATCH * options.steps / (time.perf_counter() - started)}


def _median_seconds(step: Callable[[], None], options: argparse.Namespace) -> float:
    times = []
    for _ in range(options.steps):
        started = options.clock()
        step()
        times.append(options.clock() - started)
    return statistics.median(times[options.steps // 4 :])


CONTESTANTS = {"cacr": train_cacr, "bare": train_bare, "lightly": train_lightly}


def run_alone(name: str, options: argparse.Namespace, views: int) -> dict[str, float]:
    """One contestant in its own process."""
    command = [sys.executable, __file__, options.data, "--data-root", str(options.data_root)]
    command += ["--steps", str(options.steps), "--views", str(views), "--only", name]
    command += ["--threads", str(options.threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", nargs="?", default="digits", help="a source of small images, such as cifar10")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--views", type=int, default=2, help="with --only")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant; medians are printed")
    parser.add_argument("--numbers", type=int, nargs="+", choices=[2, 5], default=[2, 5], help="of views")
    parser.add_argument("--against", nargs="+", choices=["bare", "lightly"], default=["bare", "lightly"])
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="1: processor time is counted")
    parser.add_argument("--only", choices=CONTESTANTS, help="run one contestant in this process")
    options = parser.parse_args()
    options.clock = time.process_time if options.threads == 1 else time.perf_counter
    if options.threads == 1 and "lightly" in options.against and not options.only:
        parser.error("lightly works in processes of its own: give --against bare with --threads 1")
    if options.only:
        print(json.dumps(CONTESTANTS[options.only](options)))
        return
    peers = [peer for peer in options.against if peer != "lightly" or _has_lightly()]
    matches = [
        (name, views)
        for views in options.numbers
        for name in ("cacr", *peers)
        if (name, views) != ("lightly", 5)  # its transform makes two
    ]
    results: dict[tuple[str, int], list[dict[str, float]]] = {match: [] for match in matches}
    for number in range(options.rounds):
        for match in matches:
            results[match].append(run_alone(match[0], options, match[1]))
            rate = results[match][-1]["views_per_second"]
            print(f"round {number + 1}: {match[0]}, {match[1]} views: {rate:,.0f} views/s", flush=True)
    report(results)


GOALS = {"bare": 0.95, "lightly": 3.5}


def report(results: dict[tuple[str, int], list[dict[str, float]]]) -> None:
    """Medians over the rounds, of rates and of ratios within a round."""
    print()
    rates = {match: [row["views_per_second"] for row in rows] for match, rows in results.items()}
    for (name, views), seen in rates.items():
        print(f"{name:<8} {views} views an image  {statistics.median(seen):8,.0f} views/s")
    for (name, views), seen in rates.items():
        if name == "cacr":
            wait = statistics.median(row["data_wait"] for row in results[name, views])
            print(f"{views} views: {wait:.1%} of the time in wait for data (goal: less than 5 %)")
            continue
        ratios = [ours / theirs for ours, theirs in zip(rates["cacr", views], seen, strict=True)]
        print(
            f"{views} views: {statistics.median(ratios):.2f} of {name} ({min(ratios):.2f} to {max(ratios):.2f}; "
            f"goal: at least {GOALS[name]:g})"
        )


def _has_lightly() -> bool:
    found = importlib.util.find_spec("lightly") is not None
    if not found:
        print("lightly is not installed and left out")
    return found


if __name__ == "__main__":
    main()
