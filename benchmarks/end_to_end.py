"""Views per second of whole training against the bare encoder and against lightly's SimCLR.

Three contestants train the same quarter-width ``small_alexnet`` on the same images, with the same batch and
number of views, each in a process of its own, in turns:

- ``cacr``: ``cacr pretrain`` as it is, with loading, views, objective and optimiser;
- ``bare``: forward and backward passes of the same encoder on a fixed random batch, in the same precision;
- ``lightly``: SimCLR as lightly's own examples write it (its transform on PIL images in loader workers).

    python benchmarks/end_to_end.py cifar10 --data-root DATA
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH, WIDTH = 128, 0.25


def train_cacr(options: argparse.Namespace) -> dict[str, float]:
    from cacr import pretrain
    from cacr.runs.run import Run

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
    from cacr.training.precision import has_fast_bf16

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

    return {"views_per_second": BATCH * options.views / _median_seconds(step, options.steps)}


def train_lightly(options: argparse.Namespace) -> dict[str, float]:
    import torch
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform

    from cacr.data import open_source
    from cacr.encoders import build_encoder

    source = open_source(options.data, root=options.data_root)
    transform = SimCLRTransform(input_size=32, gaussian_blur=0.0)

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


def _median_seconds(step: Callable[[], None], count: int) -> float:
    times = []
    for _ in range(count):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return statistics.median(times[count // 4 :])


CONTESTANTS = {"cacr": train_cacr, "bare": train_bare, "lightly": train_lightly}


def run_alone(name: str, options: argparse.Namespace, views: int) -> dict[str, float]:
    """One contestant in its own process."""
    command = [sys.executable, __file__, options.data, "--data-root", str(options.data_root)]
    command += ["--steps", str(options.steps), "--views", str(views), "--only", name]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", nargs="?", default="digits", help="a source of small images, such as cifar10")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--views", type=int, default=2, help="with --only")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant; medians are printed")
    parser.add_argument("--only", choices=CONTESTANTS, help="run one contestant in this process")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(CONTESTANTS[options.only](options)))
        return
    matches = [("cacr", 2), ("bare", 2), ("lightly", 2), ("cacr", 5), ("bare", 5)]
    results: dict[tuple[str, int], list[dict[str, float]]] = {match: [] for match in matches}
    for number in range(options.rounds):
        for match in matches:
            results[match].append(run_alone(match[0], options, match[1]))
            rate = results[match][-1]["views_per_second"]
            print(f"round {number + 1}: {match[0]}, {match[1]} views: {rate:,.0f} views/s", flush=True)
    rates = {
        match: statistics.median(row["views_per_second"] for row in rows) for match, rows in results.items()
    }
    print()
    for match, rate in rates.items():
        print(f"{match[0]:<8} {match[1]} views an image  {rate:8,.0f} views/s")
    for views in (2, 5):
        ratio = rates["cacr", views] / rates["bare", views]
        wait = statistics.median(row["data_wait"] for row in results["cacr", views])
        print(
            f"{views} views: {ratio:.2f} of the bare encoder (goal 0.9); waiting for data {wait:.1%} (goal < 5 %)"
        )
    print(f"2 views: {rates['cacr', 2] / rates['lightly', 2]:.2f} x lightly (goal 3.5)")


if __name__ == "__main__":
    main()
