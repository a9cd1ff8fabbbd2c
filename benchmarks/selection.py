"""Which checkpoint to keep without labels: rules that see no label, judged by the kNN that does.

Trains runs that learn and runs that go wrong, measures each after every epoch, and prints for every rule the online kNN
accuracy (on the held-out images) of the measurement that the rule chooses, beside the last one and the best one.
Finished runs are kept in ``--out`` and not repeated. ``--runs`` judges the rules on runs that are there already, for
example those of ``verdicts.py``, and trains none.

    python benchmarks/selection.py digits --out runs/selection
    python benchmarks/selection.py cifar10 --data-root DATA --out runs/selection-cifar --set imbalance=exponential
    python benchmarks/selection.py --runs runs/verdicts/*
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from _runs import common_settings, measured, run_options
from rich.console import Console
from rich.table import Table

RUNS: dict[str, dict[str, Any]] = {
    "cacr": {},
    "info_nce": {"objective": "info_nce"},
    "align_uniform": {"objective": "align_uniform"},
    "constant rate": {"schedule": "constant"},
    "constant rate, 10 times": {"schedule": "constant", "lr": 1.0},
    "constant rate, 100 times": {"schedule": "constant", "lr": 10.0},
    "weight decay 0.03": {"weight_decay": 0.03},
    "weight decay 0.3": {"weight_decay": 0.3},
    "weak repulsion": {"repulsion": 0.3},
    "no repulsion": {"repulsion": 0.0},
    "weak views": {"jitter": 0.0, "grey": 0.0},
}
"""Settings of runs, from good to hopeless."""

Row = Mapping[str, float]
RULES: dict[str, Callable[[Row], float]] = {
    "effective rank": lambda row: row["effective_rank"],
    "uniformity": lambda row: -row["uniformity"],
    "alignment": lambda row: -row["alignment"],
    "alignment + uniformity": lambda row: -row["alignment"] - row["uniformity"],
    "negative - positive distance": lambda row: row["negative_distance"] - row["positive_distance"],
    "d+ / d-": lambda row: -row["positive_distance"] / max(row["negative_distance"], 1e-9),
}
"""Name -> what is largest for the checkpoint to keep."""


def main() -> None:
    parser = run_options(__doc__, out="runs/selection", epochs=12)
    parser.add_argument(
        "--runs", type=Path, nargs="+", help="runs to judge the rules on, in place of new ones"
    )
    options = parser.parse_args()
    table = Table(title="kNN accuracy in % of what each rule keeps")
    for heading in ("run", "last", *RULES, "best"):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    gained: dict[str, list[float]] = {}
    for name, found in existing(options) if options.runs else trained(options):
        rows = [row for row in found if row["step"] and "knn" in row]
        if len(rows) < 2:  # the loss became infinite in the first epochs, or nothing was to choose
            continue
        chosen = {"last": rows[-1]["knn"]}
        chosen |= {rule: max(rows, key=of)["knn"] for rule, of in RULES.items()}
        chosen["best"] = max(row["knn"] for row in rows)
        table.add_row(name, *(f"{100 * value:.1f}" for value in chosen.values()))
        for rule, value in chosen.items():
            gained.setdefault(rule, []).append(value - chosen["last"])
    table.add_section()
    count = len(gained["last"])
    for what, of in (
        (f"mean gain over the last, {count} runs", lambda x: sum(x) / len(x)),
        ("least gain", min),
    ):
        table.add_row(what, *(f"{100 * of(values):+.1f}" for values in gained.values()))
    Console(width=160).print(table)


def trained(options: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Names and measurements of the runs above."""
    base = {"lr": 0.1, **common_settings(options)}
    for name, settings in RUNS.items():
        if options.only is None or name in options.only:
            yield name, measured(options.out / name.replace(" ", "-"), {**base, **settings})


def existing(options: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Names and measurements of runs that are there already; folders that are none are passed over."""
    from cacr.runs.run import Run

    for path in options.runs:
        if (path / "metrics.jsonl").exists():
            yield path.name, [row for row in Run.open(path).rows if "effective_rank" in row]


if __name__ == "__main__":
    main()
