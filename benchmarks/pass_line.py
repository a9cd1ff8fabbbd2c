"""Are the features worth having? One command from scratch on seven labelled sets, against its own start and raw pixels.

    cacr pretrain TRAIN --out RUN --time 10m            # the same for every set, nothing else is set
    cacr evaluate RUN --protocol linear                 # 10 labels per class, five draws
    cacr evaluate RUN --protocol knn                    # all labels

Test images are looked at once, here. A set passes if both accuracies are above those of the untrained encoder (the very
weights the run started from) and of pixels by more than the spread over draws and seeds. A cell, a set with a seed, is
one small JSON file; finished cells are not repeated. On an idle machine, one cell after the other:

    python benchmarks/pass_line.py run --data DATA --work runs/pass --seeds 0 1
    python benchmarks/pass_line.py pretrained --data DATA          # beside them: weights of ImageNet, measured alike
    python benchmarks/pass_line.py table

``OMP_NUM_THREADS=1`` and ``--time 20m`` for two cells at a time is the same time of two cores.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from _cells import once
from _sets import CHOSEN_ON, TESTED_ON, photo_folders, prepare

RESULTS = Path(__file__).parent / "results" / "pass_line"
SETS = (*CHOSEN_ON, *TESTED_ON)
MEASURES = {"linear": {"labels_per_class": 10}, "knn": {}}
REFERENCES = ("untrained", "pixels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["run", "pretrained", "table"])
    parser.add_argument(
        "--data", type=Path, help="folder with cifar-10-batches-py, transfer, imagenette-mini"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/pass"), help="arrays and run folders")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--time", default="10m", help="of the whole pretraining")
    options = parser.parse_args()
    if options.action == "table":
        print_table(options.sets, options.time)
        return
    if options.action == "pretrained":
        for name in options.sets:
            measure_pretrained(name, options)
        return
    for seed in options.seeds:
        for name in options.sets:
            run_cell(name, seed, options)


def run_cell(name: str, seed: int, options: argparse.Namespace) -> None:
    """Train and evaluate on one set, unless another process did or does it."""
    file = RESULTS / f"{name}-{options.time}-{seed}.json"
    once(file, options.work, partial(trained_cell, name, seed, options.work / file.stem, options))


def trained_cell(name: str, seed: int, run: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The result of a cell; a run that was interrupted starts again, because its time counts."""
    train, test = images_of(name, options)
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-m", "cacr", "pretrain", train, "--out", str(run)]
    command += ["--time", options.time, "--seed", str(seed)]
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    from cacr.runs.run import Run

    told = Run.open(run)
    settings = told.settings
    chosen = ("encoder", "width", "image_size", "views", "batch_size", "max_steps", "lr", "precision")
    result: dict[str, Any] = {
        "set": name,
        "seed": seed,
        "time": options.time,
        "seconds": round(seconds, 1),
        "settings": {key: getattr(settings, key) for key in chosen},
        "verdict": told.verdict.verdict if told.verdict else None,
        "evidence": list(told.verdict.evidence) if told.verdict else [],
    }
    for protocol, more in MEASURES.items():
        result[protocol] = measure(run, train, test, protocol, seed, more)
    print(run.name, json.dumps(result["linear"]), json.dumps(result["knn"]), result["verdict"], flush=True)
    return result


def measure_pretrained(name: str, options: argparse.Namespace) -> None:
    """What a user has without training: EfficientNet-Lite0 with ImageNet weights, at its own image size."""
    from continued import weights

    file = RESULTS / f"pretrained-{name}.json"
    if file.exists():
        return
    train, test = images_of(name, options)
    found = {
        protocol: measure(weights(), train, test, protocol, 0, {**more, "baselines": ()})["encoder"]
        for protocol, more in MEASURES.items()
    }
    file.write_text(json.dumps({"set": name, "weights": "tf_efficientnet_lite0", **found}, indent=1) + "\n")
    print(file.stem, found, flush=True)


def images_of(name: str, options: argparse.Namespace) -> tuple[str, str]:
    """Training and test images as a user would give them: folders of photos where there are some, or else arrays."""
    if folders := photo_folders(name, options.data):
        return str(folders[0]), str(folders[1])
    parts = prepare(name, options.data, options.work / "sets")
    return parts.train, parts.test


def measure(
    run: Path | str, train: str, test: str, protocol: str, seed: int, more: dict[str, Any]
) -> dict[str, list[float]]:
    """Accuracy of the encoder and its baselines, with its spread over draws (0 where all labels are used)."""
    from cacr import evaluate

    found = evaluate(run=run, data=train, test_data=test, protocol=(protocol,), seed=seed, **more)
    return {result.subject: [round(result.score, 4), round(result.spread or 0.0, 4)] for result in found}


def print_table(sets: Sequence[str], length: str) -> None:
    """One row per set: encoder, untrained, pixels, and whether the gains exceed the spread."""
    print(
        "| set | seeds | linear, 10 per class: encoder / untrained / pixels | kNN, all labels | verdict | passes "
        "| ImageNet weights: linear, kNN |"
    )
    print("|---|---|---|---|---|---|---|")
    passed = 0
    for name in sets:
        cells = [json.loads(file.read_text()) for file in sorted(RESULTS.glob(f"{name}-{length}-*.json"))]
        if not cells:
            continue
        texts, above = [], True
        for protocol in MEASURES:
            values = {s: [c[protocol][s] for c in cells] for s in ("encoder", *REFERENCES)}
            texts.append(" / ".join(f"{100 * mean(v[0] for v in values[s]):.1f}" for s in values))
            above = above and all(beyond(values["encoder"], values[s]) for s in REFERENCES)
        above = above and len(cells) > 1
        passed += above
        passes = "one seed" if len(cells) == 1 else "yes" if above else "no"
        verdicts = ", ".join(dict.fromkeys(str(cell["verdict"]) for cell in cells))
        beside = RESULTS / f"pretrained-{name}.json"
        known = json.loads(beside.read_text()) if beside.exists() else {}
        best = ", ".join(f"{100 * known[protocol][0]:.1f}" for protocol in MEASURES if known)
        print(f"| {name} | {len(cells)} | {texts[0]} | {texts[1]} | {verdicts} | {passes} | {best} |")
    print(f"\n{passed} of {len(sets)} sets; the goal is five of seven")


def beyond(own: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> bool:
    """Whether the mean gain exceeds the spread: of the gain over seeds, and of both over draws."""
    gains = [a[0] - b[0] for a, b in zip(own, other, strict=True)]
    over_seeds = stdev(gains) if len(gains) > 1 else 0.0
    over_draws = math.sqrt(mean(a[1] ** 2 + b[1] ** 2 for a, b in zip(own, other, strict=True)))
    return mean(gains) > max(over_seeds, over_draws)


if __name__ == "__main__":
    main()
