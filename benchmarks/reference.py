"""The reference curve of a recipe: what its own runs measure, for the page to draw behind a run with this recipe.

Trains the recipe as it is with several seeds and writes the mean of every figure of the training and of the
diagnostics, at each epoch where all runs have it. Finished runs are kept in ``--out`` and not repeated.

    python benchmarks/reference.py digits-cacr-k4 --out runs/reference
"""

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from _runs import measured

REFERENCES = Path(__file__).parents[1] / "src" / "cacr" / "training" / "references"
OF_THE_MACHINE = {"step", "epoch", "lr", "images_per_second", "data_wait"}
"""Figures that say nothing of what is learned."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("recipe", nargs="?", default="digits-cacr-k4", help="see `cacr list`")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("runs/reference"), help="folder for the runs")
    parser.add_argument("--to", type=Path, help="file to write (default: where the package keeps it)")
    options = parser.parse_args()

    from cacr.runs.run import Run

    runs = []
    for seed in options.seeds:
        out = options.out / f"{options.recipe}-seed{seed}"
        settings = {"recipe": options.recipe, "data_root": options.data_root, "seed": seed}
        measured(out, settings | {"measure_every_epochs": 1})
        runs.append(Run.open(out))
    every = [run.rows for run in runs]
    summary = runs[0].training
    budget = (
        f"{summary.images:,} images, {summary.epochs} epochs, "
        f"{summary.steps:,} steps of {summary.batch_size} images in {summary.views} views"
    )
    content = {
        "name": f"{options.recipe}, mean of {len(runs)} seeds ({budget})",
        "figures": mean_curves(every),
    }
    target = options.to or REFERENCES / f"{options.recipe}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{content['name']}: {target}")
    for seed, rows in zip(options.seeds, every, strict=True):
        print(f"seed {seed}: online kNN {rows[-1]['knn']:.1%}, loss {rows[-1]['loss']:.4f}")


def mean_curves(every: list[list[dict[str, Any]]]) -> dict[str, list[list[float]]]:
    """Figure -> [epoch, mean over the runs] where all of them have it."""
    by_epoch = [{row["epoch"]: row for row in rows} for rows in every]
    curves: dict[str, list[list[float]]] = {}
    for epoch in sorted(set.intersection(*(set(rows) for rows in by_epoch))):
        rows = [found[epoch] for found in by_epoch]
        for figure in set.intersection(*(set(row) for row in rows)) - OF_THE_MACHINE:
            mean = fmean(row[figure] for row in rows)
            curves.setdefault(figure, []).append([epoch, float(f"{mean:.5g}")])
    return dict(sorted(curves.items()))


if __name__ == "__main__":
    main()
