"""What an encoder of CIFAR-10 is worth elsewhere: CACR and InfoNCE at the same budget, several seeds.

Stage ``pretrain`` trains an eighth-width ``small_alexnet`` on CIFAR-10 with CACR (five views of 128 images a
step) and with InfoNCE (two views of 320), so that both see the same number of views in the same number of
steps. The settings of either are those that single-seed pilots found best for short runs: t- = 4 for CACR, a
temperature of 0.1 for InfoNCE, three times the paper's learning rate for both.

What is finished is kept in ``--out`` and not repeated, so it can be stopped at any time.

    python benchmarks/transfer.py pretrain --data-root DATA --out runs/transfer
"""

import argparse
from pathlib import Path
from typing import Any

METHODS: dict[str, dict[str, Any]] = {
    "cacr": {"objective": "cacr", "views": 5, "batch_size": 128, "t_neg": 4.0},
    "info_nce": {"objective": "info_nce", "views": 2, "batch_size": 320, "temperature": 0.1},
}
"""640 views a step, whatever the method."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("stage", nargs="?", choices=["pretrain"], default="pretrain")
    parser.add_argument("--data-root", type=Path, default=Path("data"), help="where CIFAR-10 lies")
    parser.add_argument("--out", type=Path, default=Path("runs/transfer"), help="folder for runs and results")
    parser.add_argument("--steps", type=int, default=200, help="of each pretraining, 640 views each")
    parser.add_argument("--width", type=float, default=0.125, help="of small_alexnet")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    pretrain_all(options)


def run_folder(options: argparse.Namespace, method: str, seed: int) -> Path:
    """Where a run lies."""
    return Path(options.out / f"{method}-seed{seed}")


def pretrain_all(options: argparse.Namespace) -> None:
    """Train every method with every seed, or go on where it was stopped."""
    from cacr import pretrain

    for seed in options.seeds:  # seed by seed, so that a part of them is a fair comparison too
        for method, settings in METHODS.items():
            pretrain(
                data="cifar10",
                data_root=options.data_root,
                out=run_folder(options, method, seed),
                resume=True,
                encoder="small_alexnet",
                width=options.width,
                max_steps=options.steps,
                seed=seed,
                **settings,
            )


if __name__ == "__main__":
    main()
