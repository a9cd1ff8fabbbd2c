"""Figures of healthy and of deliberately broken runs: where the bounds of the verdict come from.

Trains every framework with every objective that it takes, and runs broken in known ways, all on the same images
and each for the same few steps, and prints what the diagnostics measured after each epoch and the last verdict.
Finished runs are kept in ``--out`` and not repeated.

    python benchmarks/verdicts.py digits --out runs/verdicts
    python benchmarks/verdicts.py cifar10 --data-root DATA --out runs/verdicts-cifar --set max_steps=200
"""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

BROKEN: dict[str, dict[str, Any]] = {
    "no repulsion": {"repulsion": 0.0},
    "weight decay 1": {"weight_decay": 1.0},
    "learning rate 300": {"lr": 300.0},
    "repels far images": {"neg_weights": "flipped"},
    "learning rate 1e-8": {"lr": 1e-8},
    "barlow twins, learning rate 1e3": {"objective": "barlow_twins", "lr": 1e3},
}
"""Settings of runs that cannot work."""

FIGURES = ("loss", "negative_distance", "effective_rank", "uniformity", "entropy", "knn")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/verdicts"), help="folder for the runs")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--width", type=float, default=0.1)
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--only", nargs="+", help="names of runs, such as in_batch-cacr or 'no repulsion'")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting")
    options = parser.parse_args()

    from cacr.config import parse_assignment
    from cacr.losses import OBJECTIVES
    from cacr.methods import FRAMEWORKS

    runs: dict[str, dict[str, Any]] = {
        f"{framework}-{objective}": {"framework": framework, "objective": objective}
        for framework in FRAMEWORKS
        for objective in OBJECTIVES
        if FRAMEWORKS[framework].refusal(OBJECTIVES[objective]()) is None
    }
    runs |= BROKEN
    base = {
        "data": options.data,
        "data_root": options.data_root,
        "epochs": options.epochs,
        "encoder": "small_alexnet",
        "width": options.width,
        "views": options.views,
        "batch_size": options.batch_size,
        "measure_every_epochs": 1,
        **dict(parse_assignment(text) for text in options.set),
    }
    table = Table(title=f"{options.data}, {options.views} views, width {options.width:g}")
    for heading in ("run", "step", "d+ / d-", *FIGURES, "verdict"):
        table.add_column(heading, justify="left" if heading in ("run", "verdict") else "right")
    for name, settings in runs.items():
        if options.only is None or name in options.only:
            for row in figures(options.out / name.replace(" ", "-"), {**base, **settings}):
                table.add_row(name, *row)
    Console(width=160).print(table)


def figures(out: Path, settings: dict[str, Any]) -> list[list[str]]:
    """Rows of the table: each measurement, with the verdict after it."""
    from cacr.diagnostics.observer import observe
    from cacr.diagnostics.verdict_file import read_history
    from cacr.errors import UserError
    from cacr.training import RunFolder, pretrain

    run = RunFolder(out)
    if not run.verdict.exists():
        try:
            pretrain(settings, out, resume=True, observe=observe)
        except UserError as error:
            print(f"{out.name}: {error}")
    verdicts = {past["step"]: past["verdict"] for past in read_history(run)}
    rows = []
    for row in run.read_metrics():
        if "effective_rank" in row:
            nearness = row["positive_distance"] / max(row["negative_distance"], 1e-12)
            values = [f"{row[figure]:.3g}" if figure in row else "" for figure in FIGURES]
            rows.append([str(row["step"]), f"{nearness:.2f}", *values, verdicts.pop(row["step"], "")])
    return rows + [[str(step), "", *[""] * len(FIGURES), verdict] for step, verdict in verdicts.items()]


if __name__ == "__main__":
    main()
