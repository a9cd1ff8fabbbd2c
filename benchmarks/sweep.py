"""The rules behind ``auto``: one change at a time, at equal time, on real labelled sets.

Every cell trains one arm (a base with one setting changed) on the training images of one set for the same number of
minutes of one core, and judges it on *held-out training images*: kNN from all labels under several readers, and a
linear classifier from 10 labels per class, each beside the very weights the run started from. How many steps a cell
has is decided by the time of a few steps of its arm, measured once on a quiet machine, so that a busy machine makes a
cell slower but not shorter. A cell's result is one small JSON file; finished cells are not repeated.

    python benchmarks/sweep.py steps --data DATA --work runs/sweep           # first, on a quiet machine
    python benchmarks/sweep.py run --blocks start --data DATA --work runs/sweep       # one block; again to go on
    python benchmarks/sweep.py table --blocks start                                 # what it decided

The blocks, and what each is to decide, are in ``BLOCKS``.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from _sets import CHOSEN_ON, prepare

RESULTS = Path(__file__).parent / "results" / "sweep"

BASE: dict[str, Any] = {
    "encoder": "small_alexnet",
    "width": 0.25,
    "image_size": 32,
    "head": "normed",
    "first_layer": "whitened",
    "weights": "kaiming",
    "views": 5,
    "batch_size": 128,
    "optimizer": "sgd",
    "base_lr": 0.36,
    "t_neg": 4.0,
    "preset": "cifar",
}

BLOCKS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "size": (
        "how large the images should be when time is short",
        {"base": {}, "48 px": {"image_size": 48}, "64 px": {"image_size": 64}},
    ),
    "start": (
        "which parts of the start are worth having",
        {
            "base": {},
            "linear head": {"head": "linear"},
            "linear head, t- by the spread": {"head": "linear", "t_neg_schedule": "spread"},
            "random first layer": {"first_layer": "random"},
            "frozen first layer": {"first_layer": "frozen"},
            "weights as in the paper": {"weights": "paper"},
            "none of the three": {"head": "linear", "first_layer": "random", "weights": "paper"},
        },
    ),
    "rate": (
        "the learning rate, t- and the optimiser",
        {
            "base": {},
            "rate / 3": {"base_lr": 0.12},
            "rate x 3": {"base_lr": 1.08},
            "t- = 1": {"t_neg": 1.0},
            "t- = 2": {"t_neg": 2.0},
            "t- = 8": {"t_neg": 8.0},
            "adamw": {"optimizer": "adamw", "base_lr": 2e-3, "weight_decay": 0.05},
        },
    ),
    "views": (
        "views, batch and crops",
        {
            "base": {},
            "2 views": {"views": 2},
            "3 views": {"views": 3},
            "8 views": {"views": 8},
            "64 images": {"batch_size": 64},
            "256 images": {"batch_size": 256},
            "crops from 8 %": {"scale": (0.08, 1.0)},
            "half the jitter": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.1},
        },
    ),
    "encoder": (
        "which encoder learns most in the time",
        {
            "base": {},
            "width 1/8": {"width": 0.125},
            "width 1/2": {"width": 0.5},
            "resnet10t": {"encoder": "resnet10t", "width": 1.0, "weights": "paper"},
            "resnet10t, random first layer": {
                "encoder": "resnet10t",
                "width": 1.0,
                "weights": "paper",
                "first_layer": "random",
            },
        },
    ),
}
"""Name -> what it is to decide, and the arms: what differs from :data:`BASE`."""

READERS = (
    ("raw", 0),
    ("centred", 0),
    *((kind, count) for kind in ("half_white", "white") for count in (32, 64, 128, 256)),
)
PROBE_STEPS = 3, 10
STEPS = RESULTS / "steps.json"
"""Seconds of a step of every arm."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["steps", "run", "table"])
    parser.add_argument("--blocks", choices=list(BLOCKS), nargs="+", default=list(BLOCKS))
    parser.add_argument("--rounds", type=int, default=3, help="of measuring steps")
    parser.add_argument(
        "--data", type=Path, help="folder with cifar-10-batches-py, transfer, imagenette-mini"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/sweep"), help="arrays and run folders")
    parser.add_argument("--sets", nargs="+", default=list(CHOSEN_ON))
    parser.add_argument("--minutes", type=float, default=5.0, help="of one core for each cell")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    if options.action == "table":
        for block in options.blocks:
            print_table(block, options.sets, options.minutes)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.action == "steps":
        measure_steps(options)
        return
    for block in options.blocks:
        arms = BLOCKS[block][1]
        for seed in options.seeds:
            for name in options.sets:
                for arm, changes in arms.items():
                    run_cell(arm, BASE | changes, name, seed, options)


def cell_file(arm: str, name: str, seed: int, minutes: float) -> Path:
    """Where the result of a cell lies; an arm with the same name in two blocks is one cell."""
    text = "".join(c if c.isalnum() else "-" for c in f"{name}-{minutes:g}min-{arm}-{seed}")
    return RESULTS / f"{text}.json"


def run_cell(arm: str, settings: dict[str, Any], name: str, seed: int, options: argparse.Namespace) -> None:
    """Train and judge one arm on one set, unless somebody did or does it."""
    file = cell_file(arm, name, seed, options.minutes)
    claimed = options.work / "claimed" / file.stem
    claimed.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() or claimed.exists():
        return
    claimed.touch()
    from cacr.diagnostics.observer import observe
    from cacr.runs.run import Run
    from cacr.training.pretrain import pretrain

    parts = prepare(name, options.data, options.work / "sets")
    seconds = step_seconds(settings, parts.fit)
    steps = max(10, round(60 * options.minutes / seconds))
    run = options.work / "runs" / file.stem
    started = time.process_time()
    values = settings | {
        "data": parts.fit,
        "seed": seed,
        "max_steps": steps,
        "epochs": 100_000,
        "held_out": 0,
    }
    values["measure_every_epochs"] = looks(parts.fit, settings, steps)
    try:
        pretrain(values, run, observe=observe)
        figures = judge(run, parts.fit, parts.judge, seed)
        verdict = Run.open(run).verdict
        rows = [row for row in Run.open(run).rows if "effective_rank" in row]
    except Exception as error:  # an arm that fails is a result too
        figures, verdict, rows = {"failed": f"{type(error).__name__}: {error}"}, None, []
    result = {
        "arm": arm,
        "set": name,
        "seed": seed,
        "minutes": options.minutes,
        "settings": settings,
        "steps": steps,
        "step_seconds": round(seconds, 4),
        "processor_seconds": round(time.process_time() - started, 1),
        "precision": Run.open(run).settings.precision if rows else None,
        "verdict": verdict.verdict if verdict else None,
        **figures,
        "rows": [rows[0], rows[-1]] if rows else [],
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    claimed.unlink()
    print(file.stem, {k: v for k, v in figures.items() if not isinstance(v, dict)}, flush=True)


def looks(data: str, settings: dict[str, Any], steps: int) -> int:
    """Epochs between measurements, so that there are about four in a run."""
    from cacr.data import open_source

    per_epoch = max(1, len(open_source(data)) // settings["batch_size"])
    return max(1, steps // per_epoch // 4)


def step_seconds(settings: dict[str, Any], data: str) -> float:
    """Processor time of one step of an arm, from the table that ``steps`` wrote."""
    known: dict[str, float] = json.loads(STEPS.read_text())
    return known[shape(settings, data)]


def shape(settings: dict[str, Any], data: str) -> str:
    """What the time of a step depends on."""
    import numpy as np

    side = int(np.load(data.removeprefix("npz:"), mmap_mode="r")["x"].shape[1])
    parts = ("encoder", "width", "image_size", "views", "batch_size")
    return " ".join([f"images {side}", *(f"{name} {settings[name]}" for name in parts)])


def measure_steps(options: argparse.Namespace) -> None:
    """Measure the steps of all arms in turn, several times over, and keep the smallest: on a quiet machine only."""
    spent: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for name in options.sets[:2]:  # one with images of 32 pixels, one with larger ones
            data = prepare(name, options.data, options.work / "sets").fit
            done = set()
            for _, arms in BLOCKS.values():
                for changes in arms.values():
                    settings = BASE | changes
                    if (key := shape(settings, data)) not in done:
                        done.add(key)
                        spent.setdefault(key, []).append(probe(settings, data))
                        print(key, round(spent[key][-1], 4), flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    STEPS.write_text(json.dumps({key: round(min(values), 4) for key, values in spent.items()}, indent=1))


def probe(settings: dict[str, Any], data: str) -> float:
    """Processor seconds of one step: the difference of a longer and a shorter run."""
    from cacr.training.pretrain import pretrain

    spent = []
    for steps in PROBE_STEPS:
        with tempfile.TemporaryDirectory() as folder:
            values = {"data": data, "max_steps": steps, "epochs": 1000, "held_out": 0} | settings
            started = time.process_time()
            pretrain(values, Path(folder) / "probe")
            spent.append(time.process_time() - started)
    return (spent[1] - spent[0]) / (PROBE_STEPS[1] - PROBE_STEPS[0])


def judge(run: Path, fit: str, held_out: str, seed: int) -> dict[str, Any]:
    """Accuracies of the encoder and of its start on the held-out images."""
    found: dict[str, Any] = {}
    for subject, folder in (("encoder", run), ("start", run / "start")):
        found |= {
            f"{subject} {name}": value for name, value in accuracies(folder, fit, held_out, seed).items()
        }
    return found


def accuracies(run: Path, fit: str, held_out: str, seed: int) -> dict[str, Any]:
    """Of kNN under every reader; a linear classifier from 10 labels per class, with its spread over draws."""
    from cacr import evaluate, load_encoder
    from cacr.data import open_source
    from cacr.features.encode import encode

    encoder = load_encoder(run)
    sources = [open_source(data) for data in (fit, held_out)]
    train, test = (encode(encoder, source).values for source in sources)
    labels = [source.labels for source in sources]
    values = {"protocol": ("linear",), "labels_per_class": 10, "baselines": (), "seed": seed}
    (linear,) = evaluate(run=run, data=fit, test_data=held_out, **values)
    return {
        "knn": knn_by_reader(train, test, *labels),
        "linear": round(linear.score, 4),
        "linear spread": round(linear.spread or 0.0, 4),
    }


def knn_by_reader(train: Any, test: Any, labels: Any, truth: Any) -> dict[str, float]:
    """Accuracy of 20 weighted neighbours, for each way to read the features."""
    import torch

    from cacr.evaluation.protocols.knn import knn_predict
    from cacr.features.reader import fit_reader

    labels, truth = (torch.as_tensor(x, dtype=torch.int64) for x in (labels, truth))
    found = {}
    for kind, count in READERS:
        reader = fit_reader(train, kind, count or 1)
        said = knn_predict(reader(train), labels, reader(test), k=20, temperature=0.07)
        found[f"{kind} {count}" if count else kind] = round(float((said == truth).double().mean()), 4)
    return found


def print_table(block: str, sets: list[str], minutes: float) -> None:
    """One row per arm: kNN (as the sweep reads it) and linear accuracy, per set, beside the start."""
    decides, arms = BLOCKS[block]
    print(f"\n### {block}: {decides}\n")
    print("| arm | " + " | ".join(sets) + " | mean kNN | mean linear |")
    print("|---|" + "---|" * (len(sets) + 2))
    for arm in arms:
        cells = [
            [
                json.loads(file.read_text())
                for file in sorted(RESULTS.glob(f"{cell_file(arm, name, 0, minutes).stem[:-1]}*"))
            ]
            for name in sets
        ]
        texts, knns, linears = [], [], []
        for found in cells:
            found = [cell for cell in found if "encoder knn" in cell]
            if not found:
                texts.append("")
                continue
            knn, start = (mean([c[f"{s} knn"]["white 64"] for c in found]) for s in ("encoder", "start"))
            linear, before = (mean([c[f"{s} linear"] for c in found]) for s in ("encoder", "start"))
            knns.append(knn)
            linears.append(linear)
            texts.append(f"{100 * knn:.1f} ({100 * start:.1f}) / {100 * linear:.1f} ({100 * before:.1f})")
        means = [f"{100 * mean(v):.1f}" if len(v) == len(sets) else "" for v in (knns, linears)]
        print(f"| {arm} | " + " | ".join(texts + means) + " |")


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
