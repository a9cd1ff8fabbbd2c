"""The best CIFAR-10 encoder after 100 minutes of two cores, compared with lightly's SimCLR.

Both contestants have six trials of five minutes of one core, judged on held-out training images: ``cacr`` chooses
between the arms below, lightly between the rates and temperatures of ``time_to_accuracy.py``, both with the same width.
The best trial of each is then trained on all 50,000 images for the whole time with all cores, and measured once on the
test images by ``cacr evaluate``: kNN and a linear classifier, from all labels and from 10 per class. On an idle machine
of two cores, after ``pip install 'cacr[bench]'``:

    taskset -c 0 python benchmarks/best_encoder.py choose --data DATA --work runs/best &
    taskset -c 1 python benchmarks/best_encoder.py choose --data DATA --work runs/best &
    wait
    python benchmarks/best_encoder.py train cacr --data DATA --work runs/best
    python benchmarks/best_encoder.py train lightly --data DATA --work runs/best
    python benchmarks/best_encoder.py table

The encoder of ``cacr`` is exported with its model card to ``benchmarks/results/best_encoder/cifar10.safetensors``,
which ``cacr.load_encoder`` reads.
"""

import argparse
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _cells import once
from _sets import Parts, prepare
from pass_line import measure
from sweep import READ, accuracies
from time_to_accuracy import TRIALS as LIGHTLY_TRIALS
from time_to_accuracy import alone

RESULTS = Path(__file__).parent / "results" / "best_encoder"
EXPORTED = RESULTS / "cifar10.safetensors"

WIDER = {"width": 0.375}
"""The widest encoder below 20 MB (16 MB). Short trials cannot show what width is worth in a long run."""

TRIALS: dict[str, tuple[dict[str, Any], ...]] = {
    "cacr": (
        WIDER,
        WIDER | {"views": 3},
        WIDER | {"views": 8},
        WIDER | {"base_lr": 0.72},
        WIDER | {"first_layer": "frozen"},
        WIDER | {"first_layer": "frozen", "base_lr": 0.72},
    ),
    "lightly": tuple(values | WIDER for values in LIGHTLY_TRIALS),
}
"""Contestant -> what each of its trials sets; for cacr, beside what ``--time`` chooses."""

TRIAL_MINUTES = 5.0
"""Of each trial of both contestants."""

MEASURED: dict[str, dict[str, Any]] = {"all labels": {}, "10 labels per class": {"labels_per_class": 10}}
"""Title -> settings; kNN and a linear classifier are measured with each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["choose", "train", "table"])
    parser.add_argument("contestant", nargs="?", choices=list(TRIALS), help="whom to train")
    parser.add_argument("--data", type=Path, help="folder with cifar-10-batches-py")
    parser.add_argument("--work", type=Path, default=Path("runs/best"), help="arrays and run folders")
    parser.add_argument("--minutes", type=float, default=100.0, help="of the whole training")
    options = parser.parse_args()
    if options.action == "table":
        print_table()
    elif options.data is None:
        parser.error("--data is missing: the folder with cifar-10-batches-py")
    elif options.action == "choose":
        choose(options)
    elif options.contestant is None:
        parser.error(f"whom to train? {' or '.join(TRIALS)}")
    else:
        train(options.contestant, options)


def trial_file(contestant: str, number: int) -> Path:
    return RESULTS / f"{contestant}-trial-{number}.json"


def choose(options: argparse.Namespace) -> None:
    """Try the settings of both for a few minutes each, on training images without those that judge."""
    parts = prepare("cifar10", options.data, options.work / "sets")
    for contestant, trials in TRIALS.items():
        for number, values in enumerate(trials):
            make = partial(trial, contestant, number, values, parts, options.work)
            once(trial_file(contestant, number), options.work, make)


def trial(contestant: str, number: int, values: dict[str, Any], parts: Parts, work: Path) -> dict[str, Any]:
    """One trial, with its accuracies on the held-out training images."""
    from cacr import load_encoder

    if contestant == "lightly":
        found = alone("cifar10", parts.fit, parts.judge, TRIAL_MINUTES, 0, values)
    else:
        run = work / f"trial-{number}"
        steps, seconds, _ = pretrain(parts.fit, run, TRIAL_MINUTES, values)
        found = {
            "steps": steps,
            "seconds": seconds,
            **accuracies(load_encoder(run), parts.fit, parts.judge, 0),
        }
    print(contestant, values, found["knn"][READ], found["ridge"], flush=True)
    return {"minutes": TRIAL_MINUTES, "values": values, **found}


def best_values(contestant: str) -> dict[str, Any]:
    """The values of the trial with the best mean of kNN and of a classifier from 10 labels per class."""
    files = [trial_file(contestant, number) for number in range(len(TRIALS[contestant]))]
    if missing := [file.stem for file in files if not file.exists()]:
        raise SystemExit(f"first: best_encoder.py choose; missing: {', '.join(missing)}")
    trials = [json.loads(file.read_text()) for file in files]
    found: dict[str, Any] = max(trials, key=lambda trial: trial["knn"][READ] + trial["ridge"])["values"]
    return found


def pretrain(data: str, run: Path, minutes: float, values: dict[str, Any]) -> tuple[int, float, list[str]]:
    """The command of a user, in a process of its own: steps, seconds and the command."""
    from cacr.runs.run import Run

    command = [sys.executable, "-m", "cacr", "pretrain", data, "--out", str(run), "--time", f"{minutes:g}m"]
    command += [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = round(time.monotonic() - started, 1)
    shown = ["cacr", "pretrain", "TRAIN", *command[command.index("--time") :]]
    return Run.open(run).settings.max_steps or 0, seconds, shown


def train(contestant: str, options: argparse.Namespace) -> None:
    """The best trial for the whole time on all images, measured once on the test images."""
    whole = whole_set(options.data, options.work / "sets")
    make = partial(trained, contestant, best_values(contestant), whole, options)
    once(RESULTS / f"{contestant}.json", options.work, make)


def trained(
    contestant: str, values: dict[str, Any], whole: dict[str, str], options: argparse.Namespace
) -> dict[str, Any]:
    """What the long training gave; the encoder of cacr is kept."""
    from cacr.exporting import export_run
    from cacr.runs.run import Run

    run, minutes = options.work / contestant, options.minutes
    result: dict[str, Any] = {"contestant": contestant, "minutes": minutes, "values": values}
    if contestant == "lightly":
        found = alone("cifar10", whole["train"], whole["test"], minutes, 0, values | {"keep": str(run)})
        result |= {"steps": found["steps"], "seconds": found["seconds"]}
    else:
        steps, seconds, command = pretrain(whole["train"], run, minutes, values)
        rows = Run.open(run).rows
        curve = [(row["step"], round(row["knn"], 4)) for row in rows if row.get("knn") is not None]
        result |= {"steps": steps, "seconds": seconds, "command": " ".join(command), "curve": curve}
    result["scores"] = measured(run, whole)
    if contestant == "cacr":
        RESULTS.mkdir(parents=True, exist_ok=True)
        export_run(run, "torch", EXPORTED)
    return result


def measured(run: Path, whole: dict[str, str]) -> dict[str, dict[str, list[float]]]:
    """Measure -> subject (the encoder, its baselines) -> score and spread over draws."""
    return {
        f"{protocol}, {title}": measure(run, whole["train"], whole["test"], protocol, 0, more)
        for protocol in ("knn", "linear")
        for title, more in MEASURED.items()
    }


def whole_set(data: Path, cache: Path) -> dict[str, str]:
    """All images of CIFAR-10 as arrays."""
    from cacr.data import open_source

    parts = {"train": "pretrain", "test": "test"}
    files = {name: cache / f"cifar10-whole-{name}.npz" for name in parts}
    for name, part in parts.items():
        if not files[name].exists():
            cache.mkdir(parents=True, exist_ok=True)
            source = open_source("cifar10", part=part, root=data)  # type: ignore[arg-type]
            images = np.stack([np.asarray(source.read(index)) for index in range(len(source))])
            np.savez(files[name], x=images, y=np.asarray(source.labels))
    return {name: f"npz:{file}" for name, file in files.items()}


def print_table() -> None:
    """Trials, then what the long trainings gave."""
    print("| contestant | trial | kNN | 10 labels per class |")
    print("|---|---|---|---|")
    for contestant, trials in TRIALS.items():
        for number, values in enumerate(trials):
            print_trial(contestant, values, trial_file(contestant, number))
    for contestant in TRIALS:
        print_long(contestant)


def print_trial(contestant: str, values: dict[str, Any], file: Path) -> None:
    if not file.exists():
        return
    cell, words = json.loads(file.read_text()), ", ".join(f"{key}={value}" for key, value in values.items())
    print(f"| {contestant} | {words} | {cell['knn'][READ]:.1%} | {cell['ridge']:.1%} |")


def print_long(contestant: str) -> None:
    file = RESULTS / f"{contestant}.json"
    if not file.exists():
        return
    cell = json.loads(file.read_text())
    print(f"\n{contestant}: {cell['steps']:,} steps in {cell['seconds']:,.0f} s")
    for title, scores in cell["scores"].items():
        texts = (f"{name} {score:.1%} ± {spread:.1%}" for name, (score, spread) in scores.items())
        print(f"- {title}: {'; '.join(texts)}")


if __name__ == "__main__":
    main()
