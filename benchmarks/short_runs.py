"""Which t- and learning rate suit a short run: the sweep behind the rules for ``auto``.

Trains the same quarter-width ``small_alexnet`` for the same number of views with each pair of settings, and
prints the accuracies of kNN and of a linear probe with 10 labels a class (mean and spread over draws of the
labels), beside the untrained encoder. Finished trials are kept in ``--out`` and not repeated, so the sweep can
be stopped at any time.

    python benchmarks/short_runs.py digits --out runs/short --epochs 6
    python benchmarks/short_runs.py cifar10 --data-root DATA --out runs/short-cifar --epochs 1
"""

import argparse
import itertools
from pathlib import Path

from rich.console import Console
from rich.table import Table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/short"), help="folder for the runs")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--views", type=int, default=5)
    parser.add_argument("--imbalance", default="none")
    parser.add_argument("--t-neg", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--lr", type=float, nargs="+", default=[0.06, 0.18])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()

    from cacr import evaluate, pretrain
    from cacr.evaluation import read_results

    table = Table(title=f"{options.data}, {options.epochs} epochs, {options.views} views an image")
    for heading in ("t-", "lr", "seed", "kNN", "linear, 10 labels a class"):
        table.add_column(heading, justify="right")
    untrained: list[str] = []
    for t_neg, lr, seed in itertools.product(options.t_neg, options.lr, options.seeds):
        out = options.out / f"t{t_neg:g}-lr{lr:g}-seed{seed}"
        pretrain(
            data=options.data,
            data_root=options.data_root,
            imbalance=options.imbalance,
            out=out,
            resume=True,
            encoder="small_alexnet",
            width=0.25,
            views=options.views,
            batch_size=128,
            epochs=options.epochs,
            lr=lr,
            t_neg=t_neg,
            seed=seed,
        )
        data = {"run": out, "data": options.data, "data_root": options.data_root, "baselines": ("untrained",)}
        if not (out / "evaluation").exists():
            evaluate(**data, protocol="linear", labels_per_class=10)
            evaluate(**data, protocol="knn")
        texts = {
            (result.subject, result.protocol): result.text for result in read_results(out / "evaluation")
        }
        table.add_row(f"{t_neg:g}", f"{lr:g}", str(seed), texts["encoder", "knn"], texts["encoder", "linear"])
        untrained = [texts["untrained", "knn"], texts["untrained", "linear"]]
    table.add_row("untrained", "", "", *untrained)
    Console().print(table)


if __name__ == "__main__":
    main()
