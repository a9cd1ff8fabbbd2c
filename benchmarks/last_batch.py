"""What a small last batch does: 5 images are left over in every epoch, and make a step of their own or are dropped.

Both arms train for the same number of steps on the same images, whose number leaves 5 after batches of 128, and are
judged on held-out training images like the arms of ``sweep.py``: kNN from all labels, and a ridge classifier from 10
labels per class, beside the weights that the runs started from. Finished cells are not repeated.

    python benchmarks/last_batch.py run --data DATA --work runs/last_batch
    python benchmarks/last_batch.py table
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from _sets import CHOSEN_ON, prepare
from sweep import BASE, READ, judge

RESULTS = Path(__file__).parent / "results" / "last_batch"
LEFT, BATCHES, STEPS = 5, 3, 400
"""Images that are left over, full batches per epoch, and steps of a run."""

ARMS = ("kept", "dropped")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument(
        "--data", type=Path, help="folder with cifar-10-batches-py, transfer, imagenette-mini"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/last_batch"), help="arrays and run folders")
    parser.add_argument("--sets", nargs="+", choices=CHOSEN_ON, default=list(CHOSEN_ON))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    if options.action == "table":
        print_table(options)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for seed in options.seeds:
        for name in options.sets:
            for arm in options.arms:
                run_cell(name, arm, seed, options)


def cell_file(name: str, arm: str, seed: int) -> Path:
    return RESULTS / f"{name}-{arm}-{seed}.json"


def run_cell(name: str, arm: str, seed: int, options: argparse.Namespace) -> None:
    """Train on a number of images that leaves some over, and judge."""
    file = cell_file(name, arm, seed)
    if file.exists():
        return
    from cacr.data import order
    from cacr.training.pretrain import pretrain

    parts = prepare(name, options.data, options.work / "sets")
    images = fewer_images(parts.fit, BATCHES * BASE["batch_size"] + LEFT, options.work / "sets")
    run = options.work / file.stem
    values = {"data": images, "seed": seed, "max_steps": STEPS, "epochs": 10_000, "held_out": 0}
    decided = order.count_batches
    if arm == "kept":
        order.count_batches = lambda count, size, least: decided(count, size, 2)
    try:
        if pretrain(BASE | values, run, resume=True).status == "interrupted":
            raise SystemExit(130)
    finally:
        order.count_batches = decided
    start = options.work / f"start-{name}-{seed}.json"
    result = {"set": name, "arm": arm, "seed": seed, "steps": STEPS}
    result |= judge(run, parts.fit, parts.judge, seed, start)
    RESULTS.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    print(file.stem, result["encoder knn"][READ], result["encoder ridge"], flush=True)


def fewer_images(data: str, count: int, folder: Path) -> str:
    """The first ``count`` images in an order of chance."""
    import numpy as np

    file = Path(data.removeprefix("npz:"))
    fewer = folder / f"{file.stem}-{count}.npz"
    if not fewer.exists():
        with np.load(file) as arrays:
            chosen = np.random.default_rng(0).permutation(len(arrays["y"]))[:count]
            np.savez(fewer, x=arrays["x"][chosen], y=arrays["y"][chosen])
    return f"npz:{fewer}"


def print_table(options: argparse.Namespace) -> None:
    """A row per set and seed: both arms, and the start."""
    print("| set | seed | step of 5 images: kNN / 10 labels | dropped | start |")
    print("|---|---|---|---|---|")
    for name in options.sets:
        for seed in options.seeds:
            files = [cell_file(name, arm, seed) for arm in ARMS]
            cells: list[dict[str, Any]] = [json.loads(f.read_text()) for f in files if f.exists()]
            if len(cells) == len(ARMS):
                subjects = [(cell, "encoder") for cell in cells] + [(cells[0], "start")]
                texts = (
                    f"{100 * c[f'{s} knn'][READ]:.1f} / {100 * c[f'{s} ridge']:.1f}" for c, s in subjects
                )
                print(f"| {name} | {seed} | " + " | ".join(texts) + " |")


if __name__ == "__main__":
    main()
