"""How far the demo's encoder is above its baselines, judged without the demo's test digits.

Settings are chosen here, so that the demo's own digits for testing stay unseen until the end. The digits for
training are divided again for each seed, four fifths to pretrain on and to draw labels from, one fifth to judge,
and everything else is as in ``cacr demo``. Gains are paired: each is a difference of two scores with the same
labels.

    python benchmarks/digits.py --out FOLDER [--seeds 0 1 2] [--set name=value ...]

A second call with the same folder goes on where the first one ended.
"""

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from cacr import evaluate, pretrain
from cacr.commands.demo import LABELS_PER_CLASS, RECIPE
from cacr.data import ArraySource, open_source
from cacr.reading.settings import parse_assignment


def divide(folder: Path, seed: int) -> tuple[Path, Path]:
    """Files with four fifths of the demo's training digits, and with the other fifth."""
    source = open_source("digits", part="train")
    assert isinstance(source, ArraySource) and source.labels is not None
    order = np.random.default_rng(seed).permutation(len(source))
    images = source.images.permute(0, 2, 3, 1).numpy()
    files = folder / "train.npz", folder / "judge.npz"
    folder.mkdir(parents=True, exist_ok=True)
    for file, part in zip(files, (order[len(order) // 5 :], order[: len(order) // 5]), strict=True):
        np.savez(file, x=images[part], y=source.labels[part])
    return files


def scores_of(folder: Path, seed: int, settings: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Scores of every draw of the labels, by protocol and subject."""
    kept = folder / "scores.json"
    if not kept.exists():
        train, judge = divide(folder, seed)
        pretrain(data=train, out=folder / "run", seed=seed, resume=True, recipe=RECIPE, **settings)
        found: dict[str, dict[str, list[float]]] = {}
        for result in evaluate(
            run=folder / "run",
            data=train,
            test_data=str(judge),
            baselines=("untrained", "pixels"),
            labels_per_class=LABELS_PER_CLASS,
        ):
            found.setdefault(result.protocol, {})[result.subject] = result.details["scores"]
        kept.write_text(json.dumps(found))
    read: dict[str, dict[str, list[float]]] = json.loads(kept.read_text())
    return read


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="where runs and scores are kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="other settings")
    options = parser.parse_args()
    settings = dict(parse_assignment(text) for text in options.set)
    every = [scores_of(options.out / f"seed-{seed}", seed, settings) for seed in options.seeds]
    print(
        f"\n{LABELS_PER_CLASS} labels per class, {len(every)} seeds, mean and standard deviation over all draws"
    )
    for protocol in every[0]:
        together = {
            subject: [score for seed in every for score in seed[protocol][subject]]
            for subject in every[0][protocol]
        }
        for subject, scores in together.items():
            line = f"{protocol:<8} {subject:<10} {100 * mean(scores):5.1f} +- {100 * stdev(scores):.1f}"
            if subject != "encoder":
                gains = [a - b for a, b in zip(together["encoder"], scores, strict=True)]
                line += f"   the encoder gains {100 * mean(gains):+.1f} +- {100 * stdev(gains):.1f}"
            print(line)


if __name__ == "__main__":
    main()
