"""The rules behind ``auto``: one change at a time, at equal time, on real labelled sets.

Every cell trains one arm (a base with one setting changed) on the training images of one set for the same number of
minutes of one core, and judges it on *held-out training images*: kNN from all labels under several readers, and a
ridge classifier from 10 labels per class (its penalty chosen by leaving one out: seconds, where the linear protocol
needs minutes), each beside the very weights the run started from. How many steps a cell
has is decided by the time of a few steps of its arm, measured once on a quiet machine, so that a busy machine makes a
cell slower but not shorter. A cell's result is one small JSON file; finished cells are not repeated.

    python benchmarks/sweep.py steps --data DATA --work runs/sweep           # first, on a quiet machine
    python benchmarks/sweep.py run --blocks start --data DATA --work runs/sweep       # one block; again to go on
    python benchmarks/sweep.py pixels --data DATA --work runs/sweep                   # what any encoder must beat
    python benchmarks/sweep.py table --blocks start                                 # what it decided

The blocks, and what each is to decide, are in ``BLOCKS``.
"""

import argparse
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from _cells import once
from _sets import CHOSEN_ON, TESTED_ON, prepare

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

COLOURS = ("brightness", "contrast", "saturation", "hue", "grey")

RESNET = {"encoder": "resnet10t", "width": 1.0, "weights": "paper", "image_size": 64}
"""timm's smallest, at a size at which its strides leave something to see."""

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
        "the learning rate, t-, the optimiser and an average of the weights",
        {
            "base": {},
            "rate / 3": {"base_lr": 0.12},
            "rate x 3": {"base_lr": 1.08},
            "t- = 1": {"t_neg": 1.0},
            "t- = 2": {"t_neg": 2.0},
            "adamw": {"optimizer": "adamw", "base_lr": 2e-3, "weight_decay": 0.05},
            "average of the weights": {"average": 0.99},
        },
    ),
    "views": (
        "views, batch and crops",
        {
            "base": {},
            "2 views": {"views": 2},
            "3 views": {"views": 3},
            "8 views": {"views": 8},
            "256 images": {"batch_size": 256},
            "crops from 8 %": {"scale": (0.08, 1.0)},
            "half the jitter": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2, "hue": 0.1},
        },
    ),
    "encoder": (
        "which encoder learns most in the time",
        {
            "base": {},
            "width 1/2": {"width": 0.5},
            "64 px": {"image_size": 64},
            "64 px, resnet10t": RESNET,
            "64 px, resnet10t, random first layer": RESNET | {"first_layer": "random"},
        },
    ),
    "useless": (
        "nothing: runs that are mostly useless, for the verdict to tell from the others (``--minutes 1``, all sets)",
        {
            "base": {},
            "rate x 30": {"base_lr": 10.8},
            "rate / 1000": {"base_lr": 0.00036},
            "none of the three": {"head": "linear", "first_layer": "random", "weights": "paper"},
            "views alike": {"scale": (0.9, 1.0), **dict.fromkeys(COLOURS, 0.0)},
            "crops of 1 %": {"scale": (0.01, 0.02)},
            "repels far images": {"neg_weights": "flipped"},
        },
    ),
}
"""Name -> what it is to decide, and the arms: what differs from :data:`BASE`."""

READERS = (
    ("raw", 0),
    ("centred", 0),
    *((kind, count) for kind in ("half_white", "white") for count in (32, 64, 128, 256)),
)
READ = "half_white 256"
"""The reader by whose kNN the arms are compared."""

PROBE_STEPS = 3, 10
STEPS = RESULTS / "steps.json"
"""Seconds of a step of every arm."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["steps", "run", "pixels", "table"])
    parser.add_argument("--blocks", choices=list(BLOCKS), nargs="+", default=list(BLOCKS))
    parser.add_argument("--arms", nargs="+", help="only these arms of the blocks")
    parser.add_argument("--rounds", type=int, default=3, help="of measuring steps")
    parser.add_argument(
        "--data", type=Path, help="folder with cifar-10-batches-py, transfer, imagenette-mini"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/sweep"), help="arrays and run folders")
    parser.add_argument("--sets", nargs="+", choices=[*CHOSEN_ON, *TESTED_ON], default=list(CHOSEN_ON))
    parser.add_argument("--minutes", type=float, default=5.0, help="of one core for each cell")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    if options.action == "table":
        for block in options.blocks:
            print_table(block, options.sets, options.minutes)
        print_readers(options.sets, options.minutes)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.action == "steps":
        measure_steps(options)
        return
    if options.action == "pixels":
        for name in options.sets:
            judge_pixels(name, options)
        return
    for block in options.blocks:
        arms = {a: c for a, c in BLOCKS[block][1].items() if options.arms is None or a in options.arms}
        for seed in options.seeds:
            for arm, changes in arms.items():
                for name in options.sets:
                    run_cell(arm, BASE | changes, name, seed, options)


def cell_file(arm: str, name: str, seed: int, minutes: float) -> Path:
    """Where the result of a cell lies; an arm with the same name in two blocks is one cell."""
    text = "".join(c if c.isalnum() else "-" for c in f"{name}-{minutes:g}min-{arm}-{seed}")
    return RESULTS / f"{text}.json"


def run_cell(arm: str, settings: dict[str, Any], name: str, seed: int, options: argparse.Namespace) -> None:
    """Train and judge one arm on one set, unless another process did or does it."""
    file = cell_file(arm, name, seed, options.minutes)
    once(file, options.work, partial(trained_cell, arm, settings, name, seed, file.stem, options))


def trained_cell(
    arm: str, settings: dict[str, Any], name: str, seed: int, title: str, options: argparse.Namespace
) -> dict[str, Any]:
    """The result of a cell; the training continues where it was stopped."""
    from cacr.data import open_source
    from cacr.diagnostics.observer import observe
    from cacr.runs.folder import RunFolder
    from cacr.runs.run import Run
    from cacr.training.loop.diverged import DivergedError
    from cacr.training.pretrain import pretrain

    parts = prepare(name, options.data, options.work / "sets")
    seconds = step_seconds(settings, parts.fit)
    steps = max(10, round(60 * options.minutes / seconds))
    run = options.work / "runs" / title
    started = time.process_time()
    values = settings | {
        "data": parts.fit,
        "seed": seed,
        "max_steps": steps,
        "epochs": 100_000,
        "held_out": 0,
    }
    values["measure_every_epochs"] = looks(parts.fit, settings, steps)
    resume = RunFolder(run).holds_run
    try:
        if pretrain({} if resume else values, run, resume=resume, observe=observe).status == "interrupted":
            raise SystemExit(130)
        figures = judge(run, parts.fit, parts.judge, seed, _start_file(settings, name, seed, options.work))
        figures["measured"] = json.loads((run / "diagnostics" / "how.json").read_text())["images"]
        figures["judged on"] = len(open_source(parts.judge))
        verdict = Run.open(run).verdict
        rows = [row for row in Run.open(run).rows if "effective_rank" in row]
    except DivergedError as error:  # an arm that diverges is a result too
        figures, verdict, rows = {"failed": error.what}, None, []
    print(title, {k: v for k, v in figures.items() if not isinstance(v, dict)}, flush=True)
    return {
        "arm": arm,
        "set": name,
        "seed": seed,
        "minutes": options.minutes,
        "settings": settings,
        "steps": steps,
        "step_seconds": round(seconds, 4),
        "processor_seconds": round(time.process_time() - started, 1),
        "precision": Run.open(run).settings.precision,
        "verdict": verdict.verdict if verdict else None,
        **figures,
        "rows": rows,
    }


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
    """Measure the steps of arms in turn, several times over, and keep the smallest: on a quiet machine only.

    What was measured before stays.
    """
    known: dict[str, float] = json.loads(STEPS.read_text()) if STEPS.exists() else {}
    spent: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for name in options.sets[:2]:  # one with images of 32 pixels, one with larger ones
            data = prepare(name, options.data, options.work / "sets").fit
            done = set()
            for _, arms in BLOCKS.values():
                for changes in arms.values():
                    settings = BASE | changes
                    if (key := shape(settings, data)) not in done | known.keys():
                        done.add(key)
                        spent.setdefault(key, []).append(probe(settings, data))
                        print(key, round(spent[key][-1], 4), flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = {key: round(min(values), 4) for key, values in spent.items()}
    STEPS.write_text(json.dumps(known | found, indent=1) + "\n")


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


def _start_file(settings: dict[str, Any], name: str, seed: int, work: Path) -> Path:
    """Where the accuracies of a start are kept: arms that change only the training share it."""
    parts = ("encoder", "width", "image_size", "first_layer", "weights")
    return work / "starts" / "-".join([name, str(seed), *(str(settings[part]) for part in parts)])


def judge(run: Path, fit: str, held_out: str, seed: int, known: Path) -> dict[str, Any]:
    """Accuracies of the encoder and of its start, which may be ``known``, on the held-out images."""
    from cacr import load_encoder

    found = accuracies(load_encoder(run), fit, held_out, seed)
    found = {f"encoder {name}": value for name, value in found.items()}
    if not known.exists():
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(accuracies(load_encoder(run / "start"), fit, held_out, seed)))
    return found | {f"start {name}": value for name, value in json.loads(known.read_text()).items()}


def judge_pixels(name: str, options: argparse.Namespace) -> None:
    """Accuracies of the pixels of images of 32 x 32, beside which the arms of a set stand."""
    from cacr.encoders import build_encoder
    from cacr.evaluation.baselines import BASELINES, Origin

    parts = prepare(name, options.data, options.work / "sets")
    info = build_encoder("small_alexnet", image_size=32, width=BASE["width"]).info
    found = accuracies(BASELINES["pixels"](Origin(info), 0), parts.fit, parts.judge, options.seeds[0])
    (RESULTS / f"pixels-{name}.json").write_text(json.dumps({"set": name, **found}, indent=1) + "\n")


def accuracies(encoder: Any, fit: str, held_out: str, seed: int) -> dict[str, Any]:
    """Of kNN under every reader; of a ridge classifier from 10 labels per class, with its spread over draws."""
    from cacr.data import open_source
    from cacr.features.encode import encode

    sources = [open_source(data) for data in (fit, held_out)]
    train, test = (encode(encoder, source).values for source in sources)
    labels, truth = (source.labels for source in sources)
    ridge = few_labels(train.numpy(), test.numpy(), labels, truth, seed)
    return {
        "knn": knn_by_reader(train, test, labels, truth),
        "ridge": round(mean(ridge), 4),
        "ridge spread": round(stdev(ridge), 4),
    }


def few_labels(train: Any, test: Any, labels: Any, truth: Any, seed: int) -> list[float]:
    """Accuracy of a ridge classifier on standardised features, for each of five draws of 10 labels per class."""
    import numpy as np
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.preprocessing import StandardScaler

    from cacr.evaluation.engine.draws import drawn_labels

    scaler = StandardScaler().fit(train)
    train, test, labels = scaler.transform(train), scaler.transform(test), np.asarray(labels)
    scores = []
    for rows, _ in drawn_labels(labels, 10, 5, seed):
        classifier = RidgeClassifierCV(alphas=np.logspace(0, 6, 13)).fit(train[rows], labels[rows])
        scores.append(per_class(classifier.predict(test), np.asarray(truth)))
    return scores


def knn_by_reader(train: Any, test: Any, labels: Any, truth: Any) -> dict[str, float]:
    """Mean accuracy over classes of 20 weighted neighbours, for each way to read the features."""
    import torch

    from cacr.evaluation.protocols.knn import knn_predict
    from cacr.features.reader import fit_reader

    labels, truth = (torch.as_tensor(x, dtype=torch.int64) for x in (labels, truth))
    found = {}
    for kind, count in READERS:
        reader = fit_reader(train, kind, count or 1)
        said = knn_predict(reader(train), labels, reader(test), k=20, temperature=0.07)
        found[f"{kind} {count}" if count else kind] = round(per_class(said.numpy(), truth.numpy()), 4)
    return found


def per_class(said: Any, truth: Any) -> float:
    """Mean accuracy over classes: who always names the largest class gains nothing by it."""
    from sklearn.metrics import recall_score

    return float(recall_score(truth, said, average="macro", zero_division=0.0))


def cells_of(arm: str, name: str, minutes: float) -> list[dict[str, Any]]:
    """The results of an arm on a set, one for each seed; without those that failed."""
    stem = cell_file(arm, name, 0, minutes).stem.removesuffix("0")
    found = (json.loads(file.read_text()) for file in sorted(RESULTS.glob(f"{stem}[0-9]*.json")))
    return [cell for cell in found if "encoder knn" in cell]


def print_table(block: str, sets: list[str], minutes: float) -> None:
    """One row per arm: kNN (as the sweep reads it) and accuracy from 10 labels per class, per set, beside the start.

    Only seed 0 counts in the two means, because not all arms have others; each set shows the mean over its seeds.
    """
    decides, arms = BLOCKS[block]
    print(f"\n### {block}: {decides}\n")
    print("| arm | " + " | ".join(sets) + " | mean kNN | mean, 10 labels |")
    print("|---|" + "---|" * (len(sets) + 2))
    for arm in arms:
        texts, knns, ridges = [], [], []
        for cells in (cells_of(arm, name, minutes) for name in sets):
            if not cells:
                texts.append("")
                continue
            knn, start = (mean(c[f"{s} knn"][READ] for c in cells) for s in ("encoder", "start"))
            ridge, before = (mean(c[f"{s} ridge"] for c in cells) for s in ("encoder", "start"))
            knns.append(cells[0]["encoder knn"][READ])
            ridges.append(cells[0]["encoder ridge"])
            seeds = f" [{len(cells)} seeds]" if len(cells) > 1 else ""
            texts.append(
                f"{100 * knn:.1f} ({100 * start:.1f}) / {100 * ridge:.1f} ({100 * before:.1f}){seeds}"
            )
        means = [f"{100 * mean(v):.1f}" if len(v) == len(sets) else "" for v in (knns, ridges)]
        print(f"| {arm} | " + " | ".join(texts + means) + " |")
    pixels = [json.loads((RESULTS / f"pixels-{name}.json").read_text()) for name in sets]
    knns, ridges = [found["knn"][READ] for found in pixels], [found["ridge"] for found in pixels]
    texts = [f"{100 * knn:.1f} / {100 * ridge:.1f}" for knn, ridge in zip(knns, ridges, strict=True)]
    print("| raw pixels | " + " | ".join(texts) + f" | {100 * mean(knns):.1f} | {100 * mean(ridges):.1f} |")


def print_readers(sets: list[str], minutes: float) -> None:
    """KNN under every reader: the mean over all arms of encoders and of their starts, and pixels."""
    arms = dict.fromkeys(arm for _, arms in BLOCKS.values() for arm in arms)
    cells = {name: [cell for arm in arms for cell in cells_of(arm, name, minutes)] for name in sets}
    pixels = {name: json.loads((RESULTS / f"pixels-{name}.json").read_text())["knn"] for name in sets}
    print("\n### readers: how features are compared\n")
    print("| reader | " + " | ".join(f"{name}: encoder / start / pixels" for name in sets) + " | mean |")
    print("|---|" + "---|" * (len(sets) + 1))
    for kind, count in READERS:
        reader, texts, every = f"{kind} {count}" if count else kind, [], []
        for name in sets:
            known = [mean(cell[f"{s} knn"][reader] for cell in cells[name]) for s in ("encoder", "start")]
            known.append(pixels[name][reader])
            texts.append(" / ".join(f"{100 * value:.1f}" for value in known))
            every += known
        print(f"| {reader} | " + " | ".join(texts) + f" | {100 * mean(every):.1f} |")


if __name__ == "__main__":
    main()
