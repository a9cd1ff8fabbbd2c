"""Every method on CIFAR-10 after the same number of views, each at the best of three rates, with two seeds.

Quarter-width ``small_alexnet``, 20,000 training images, 200,000 views of them, batches of 128. A method has three
rates: its own, a third and three times of it. Each is trained once without 2,000 held-out training images and judged on
them; the best is trained on all training images with two seeds and judged on 2,000 test images. Cells are named by
their rate: if a method gets another rate of its own in ``cacr/methods.py``, because the best was at the edge of the
three, only the missing one is trained. Accuracy is that of kNN
from all labels under the same reader, and of a ridge classifier from 10 labels per class, beside those of the weights
that the run started from. A cell is one small JSON file; finished cells are not repeated, an unfinished one goes on
from its last checkpoint, so the command can be stopped at any time and given again. Two processes share the work:
neither begins a method that the other is at. They take one thread each.

    python benchmarks/methods.py run --data DATA --work runs/methods       # at most three hours of two cores
    python benchmarks/methods.py run --methods byol swav --data DATA --work runs/methods
    python benchmarks/methods.py run --methods byol --views 800000 --rate 0.33 --data DATA --work runs/methods  # longer
    python benchmarks/methods.py table [--views 800000]
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

from _cells import at_work
from _sets import prepare

RESULTS = Path(__file__).parent / "results" / "methods"
VIEWS, BATCH, SEEDS = 200_000, 128, (0, 1)
FACTORS = (1 / 3, 1.0, 3.0)
DEFAULT_VIEWS = 5
"""Of an image, for methods that do not say how many they take."""

READER = "half_white", 256
"""How features are compared: the reader that the sweep chose by."""

ORDER = (
    *("cacr", "simclr", "byol", "simsiam", "moco_v2", "moco_v3", "swav", "barlow_twins", "vicreg"),
    *("lejepa", "fnc", "ascl", "adaclr", "align_uniform", "hard_negative", "cmc", "triplet", "simclr_v2"),
)
"""All methods of images without captions; who stops early has the best known ones."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("--data", type=Path, help="folder with cifar-10-batches-py")
    parser.add_argument("--work", type=Path, default=Path("runs/methods"), help="arrays and run folders")
    parser.add_argument("--methods", nargs="+", choices=ORDER, default=ORDER)
    parser.add_argument("--views", type=int, default=VIEWS, help="of all images together, in each run")
    parser.add_argument("--rate", type=float, help="base_lr, instead of the best of three")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the cells are kept")
    options = parser.parse_args()
    if options.action == "table":
        print(table(options.methods, options.results, options.views))
        return
    if options.data is None:
        parser.error("--data is missing: the folder with cifar-10-batches-py")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported, below
    for method in options.methods:
        with at_work(options.work / f"{method}.lock") as free:
            if free:
                run_method(method, options)
            else:
                print(f"{method}: another process works on it", flush=True)


def run_method(method: str, options: argparse.Namespace) -> None:
    """The cells of a method: its rates, then the seeds at the best of them."""
    with at_work(options.work / "sets.lock", wait=True):
        parts = prepare("cifar10", options.data, options.work)
    start = f"{method}-{options.views}"
    best = options.rate
    if best is None:
        tried = {
            rate: cell(f"{start}-choose-{rate:.2g}", method, rate, 0, parts.fit, parts.judge, options)
            for rate in rates(method)
        }
        best = max(tried, key=lambda rate: tried[rate]["knn"])
    for seed in SEEDS:
        cell(f"{start}-test-{best:.2g}-{seed}", method, best, seed, parts.train, parts.test, options)


def rates(method: str) -> list[float]:
    """A third of the method's own ``base_lr``, this and three times of it; two digits of each."""
    from cacr.methods import METHODS
    from cacr.training.optimization.optimizers import method_rates

    own = method_rates(method, METHODS[method].settings.get("optimizer", "sgd")).base_lr
    return [float(f"{own * factor:.2g}") for factor in FACTORS]


def cell(
    name: str, method: str, rate: float, seed: int, fit: str, judge: str, options: argparse.Namespace
) -> dict[str, Any]:
    """A training and its accuracies, or what is known of it."""
    file: Path = options.results / f"{name}.json"
    known = read(file)
    if known is None:
        from cacr.files import write_atomically

        found = train(method, rate, seed, fit, judge, options.views, options.work / name)
        known = {"method": method, "seed": seed, **found}
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, (json.dumps(known, indent=1) + "\n").encode())
        print(name, found["knn"], "start", found["start knn"], flush=True)
    return known


def train(method: str, rate: float, seed: int, fit: str, judge: str, views: int, out: Path) -> dict[str, Any]:
    """Train a method and measure it beside its start."""
    from cacr import load_encoder
    from cacr.methods import METHODS
    from cacr.runs.run import Run
    from cacr.training.loop.diverged import DivergedError
    from cacr.training.pretrain import pretrain

    seen = METHODS[method].settings.get("views", DEFAULT_VIEWS)
    values = {
        "data": fit,
        "method": method,
        "encoder": "small_alexnet",
        "width": 0.25,
        "image_size": 32,
        "preset": "cifar",
        "batch_size": BATCH,
        "max_steps": max(1, views // (BATCH * seen)),
        "views": seen,
        "base_lr": rate,
        "seed": seed,
        "held_out": 0,
        "measure_every_epochs": 0,
    }
    facts = {"base_lr": rate, "steps": values["max_steps"], "views": seen}
    began = time.process_time()
    try:
        if pretrain(values, out, resume=True).status == "interrupted":
            sys.exit(130)  # nothing is judged before it is trained
    except DivergedError as error:  # a rate at which it diverges is a result
        start = accuracies(load_encoder(out / "start"), fit, judge, seed, "start ")
        return {"knn": 0.0, "ridge": 0.0, **start, **facts, "failed": error.what}
    spent = time.process_time() - began  # since the last start, if it was stopped
    facts |= {"processor_seconds": round(spent, 1), "precision": Run.open(out).settings.precision}
    return {
        **accuracies(load_encoder(out), fit, judge, seed),
        **accuracies(load_encoder(out / "start"), fit, judge, seed, "start "),
        **facts,
    }


def accuracies(encoder: Any, fit: str, judge: str, seed: int, prefix: str = "") -> dict[str, float]:
    """Mean accuracy over classes, of kNN from all labels and of a ridge classifier from 10 labels per class."""
    import torch
    from sweep import few_labels, per_class

    from cacr.data import open_source
    from cacr.evaluation.protocols.knn import knn_predict
    from cacr.features.encode import encode
    from cacr.features.reader import fit_reader

    sources = [open_source(data) for data in (fit, judge)]
    train, test = (encode(encoder, source).values for source in sources)
    labels, truth = (torch.as_tensor(source.labels, dtype=torch.int64) for source in sources)
    reader = fit_reader(train, *READER)
    said = knn_predict(reader(train), labels, reader(test), k=20, temperature=0.07)
    few = few_labels(train.numpy(), test.numpy(), labels.numpy(), truth.numpy(), seed)
    return {
        f"{prefix}knn": round(per_class(said.numpy(), truth.numpy()), 4),
        f"{prefix}ridge": round(mean(few), 4),
    }


def table(methods: tuple[str, ...], results: Path, views: int) -> str:
    """The methods by their mean over seeds, as a table in Markdown; those without a finished seed are named below."""
    rows, missing = [], []
    for method in methods:
        start = f"{method}-{views}"
        tried = {
            rate: known
            for rate in rates(method)
            if (known := read(results / f"{start}-choose-{rate:.2g}.json")) is not None
        }
        chosen = f"{max(tried, key=lambda rate: tried[rate]['knn']):.2g}" if tried else "*"  # given by --rate
        files = [*results.glob(f"{start}-test-{chosen}-[0-9].json")]
        cells = [known for file in sorted(files) if (known := read(file)) is not None]
        if not cells or 0 < len(tried) < len(FACTORS):
            missing.append(method)
            continue
        knn, ridge = ([100 * each[name] for each in cells] for name in ("knn", "ridge"))
        gains = [
            100 * mean(each[name] - each[f"start {name}"] for each in cells) for name in ("knn", "ridge")
        ]
        texts = (", ".join(f"{each:.1f}" for each in scores) for scores in (knn, ridge))
        figures = " | ".join(f"{text} ({gain:+.1f})" for text, gain in zip(texts, gains, strict=True))
        others = ", ".join(f"{known['base_lr']:.2g}: {100 * known['knn']:.1f}" for known in tried.values())
        rows.append(
            (
                mean(knn),
                f"| `{method}` | {figures} | {cells[0]['base_lr']:.2g} | {others} | {cells[0]['steps']} |",
            )
        )
    head = (
        "| method | kNN, each seed (over its start) | 10 labels per class | base_lr | tried on held-out images: kNN "
        "| steps |\n|---|---|---|---|---|---|"
    )
    text = "\n".join([head, *(row for _, row in sorted(rows, reverse=True))])
    return f"{text}\n\nNot run yet: {', '.join(missing)}." if missing else text


def read(file: Path) -> dict[str, Any] | None:
    """What is known of a cell; None if nothing is."""
    known: dict[str, Any] | None = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return known


if __name__ == "__main__":
    main()
