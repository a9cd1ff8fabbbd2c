"""Default learning rate of each method: five rates, compared on held-out digits.

Each method is trained for 200 steps on four fifths of the training digits and judged on the other fifth, by kNN from 10
labels per class, at each rate with two seeds (of the split, the weights and the views). A method whose best rate is the
optimiser's own keeps it; ``Rates`` in ``cacr/methods.py`` are what others need. The test digits, on which
``tests/training/test_learning.py`` looks whether a method learns, decide nothing. A cell is one small JSON file;
finished cells are not repeated.

    python benchmarks/method_rates.py run --work runs/rates [--methods byol lejepa]
    python benchmarks/method_rates.py table
"""

import argparse
import json
import os
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from methods import ORDER

RESULTS = Path(__file__).parent / "results" / "method_rates"
RATES = {
    "sgd": (0.01, 0.03, 0.1, 0.36, 1.0),
    "lars": (0.1, 0.3, 1.0, 3.0, 10.0),
    "adamw": (0.0003, 0.001, 0.003, 0.01, 0.03),
}
SEEDS = (0, 1)
SHORT = {
    **{"width": 0.1, "batch_size": 64, "precision": "float32", "max_steps": 200, "held_out": 0},
    "preset": "digits",  # what the name digits would choose
}
"""As in the test of learning."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("--work", type=Path, default=Path("runs/rates"), help="digits and run folders")
    parser.add_argument("--methods", nargs="+", choices=ORDER, default=ORDER)
    options = parser.parse_args()
    if options.action == "table":
        print(table(options.methods))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for seed in SEEDS:
        for method in options.methods:
            for rate in RATES[optimizer_of(method)]:
                cell(method, rate, seed, options.work)


def optimizer_of(method: str) -> str:
    """What the method is trained with, by a convolutional encoder."""
    from cacr.methods import METHODS

    return str(METHODS[method].settings.get("optimizer", "sgd"))


def cell(method: str, rate: float, seed: int, work: Path) -> None:
    """Train and judge, unless it is known."""
    from digits import divide

    from cacr import evaluate
    from cacr.files import write_atomically
    from cacr.training.loop.diverged import DivergedError
    from cacr.training.pretrain import pretrain

    file = RESULTS / f"{method}-{rate:g}-{seed}.json"
    if file.exists():
        return
    train, judge = divide(work / f"digits-{seed}", seed)
    values = {**SHORT, "data": f"npz:{train}", "method": method, "base_lr": rate, "seed": seed}
    run = work / file.stem
    found: dict[str, Any] = {"method": method, "base_lr": rate, "seed": seed}
    try:
        if pretrain(values, run, resume=True).status == "interrupted":
            sys.exit(130)
        results = evaluate(
            run=run,
            data=f"npz:{train}",
            test_data=f"npz:{judge}",
            protocol="knn",
            labels_per_class=10,
            reader="white",
            reader_components=64,
            baselines=("untrained",),
        )
        found |= {result.subject: round(result.score, 4) for result in results}
    except DivergedError as error:  # a rate at which it diverges is a result
        found |= {"encoder": 0.0, "failed": error.what}
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_atomically(file, (json.dumps(found, indent=1) + "\n").encode())
    print(file.stem, found["encoder"], found.get("untrained"), flush=True)


def table(methods: tuple[str, ...]) -> str:
    """Accuracy at each rate, a row per method, the best in bold; methods with other optimisers have other rates."""
    rows = []
    for method in methods:
        scores: dict[float, float] = {}
        for rate in RATES[optimizer_of(method)]:
            files = [RESULTS / f"{method}-{rate:g}-{seed}.json" for seed in SEEDS]
            cells = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
            if cells:
                scores[rate] = 100 * mean(each["encoder"] for each in cells)
        if scores:
            best = max(scores, key=scores.__getitem__)
            texts = [
                f"{rate:g}: **{x:.1f}**" if rate == best else f"{rate:g}: {x:.1f}"
                for rate, x in scores.items()
            ]
            rows.append(f"| `{method}` | " + " | ".join(texts) + " |")
    return "\n".join(["| method | rate: kNN (%) | | | | |", "|---|---|---|---|---|---|", *rows])


if __name__ == "__main__":
    main()
