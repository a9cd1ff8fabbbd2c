"""Every framework with every objective after the same number of views: a table of nearest-neighbour accuracies.

The same narrow ``small_alexnet`` is trained by each pair for the same steps, batches and views, with the settings
that ``auto`` gives; nothing is picked by the scores. Then kNN (k = 20) with the features of some training images
classifies the test images; the untrained encoder stands beside them. Results are appended to
``results.jsonl`` in ``--out`` as they come, and finished trials are not repeated, so the table can be stopped at
any time.

    python benchmarks/frameworks.py cifar10 --data-root DATA --out runs/frameworks
"""

import argparse
import itertools
import json
from pathlib import Path
from statistics import mean
from typing import Any

OBJECTIVES = ("cacr", "info_nce", "align_uniform", "hard_negative")
FRAMEWORKS = ("in_batch", "queue", "momentum")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("runs/frameworks"), help="folder for the runs")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=float, default=0.125)
    parser.add_argument("--frameworks", nargs="+", default=FRAMEWORKS)
    parser.add_argument("--objectives", nargs="+", default=OBJECTIVES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--train-images", type=int, default=10_000, help="whose features vote")
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "results.jsonl"
    done: dict[tuple[str, str, int], float] = {}
    if file.exists():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        done = {(row["framework"], row["objective"], row["seed"]): row["knn"] for row in rows}
    pairs = [*itertools.product(options.frameworks, options.objectives), ("untrained", "")]
    for seed, (framework, objective) in itertools.product(options.seeds, pairs):
        if (framework, objective, seed) not in done:
            score, facts = _trial(options, framework, objective, seed)
            done[framework, objective, seed] = score
            row = {"framework": framework, "objective": objective, "seed": seed, "knn": score, **facts}
            with file.open("a") as results:
                results.write(json.dumps(row) + "\n")
            print(f"{framework} {objective} seed {seed}: kNN {100 * score:.1f}", flush=True)
    print(_table(options, done))


def _trial(
    options: argparse.Namespace, framework: str, objective: str, seed: int
) -> tuple[float, dict[str, Any]]:
    """Train, unless the encoder is to stay as it is; the kNN accuracy and what it depends on."""
    from cacr import load_encoder, pretrain
    from cacr.evaluation import BASELINES

    facts: dict[str, Any] = {"steps": 0, "views": 0}
    trained = options.out / f"{framework}-{objective}-seed{seed}"
    if framework == "untrained":
        any_run = options.out / f"{options.frameworks[0]}-{options.objectives[0]}-seed{seed}"
        return _knn(options, BASELINES["untrained"](load_encoder(any_run).info, seed)), facts
    outcome = pretrain(
        data=options.data,
        data_root=options.data_root,
        out=trained,
        resume=True,
        framework=framework,
        objective=objective,
        encoder="small_alexnet",
        width=options.width,
        views=options.views,
        batch_size=options.batch_size,
        epochs=1000,
        max_steps=options.steps,
        measure_every_epochs=0,
        seed=seed,
    )
    if outcome.status == "interrupted":
        raise SystemExit(130)
    encoder = load_encoder(trained)
    facts = {name: encoder.info.training[name] for name in ("steps", "images", "objective_options")}
    facts["views"] = options.steps * options.batch_size * options.views
    facts["framework_options"] = encoder.info.training["framework_options"]
    return _knn(options, encoder), facts


def _knn(options: argparse.Namespace, encoder: Any) -> float:
    """The accuracy on the test part, by the features of the first images of a shuffled training part."""
    import torch

    from cacr.data import open_source
    from cacr.data.order import epoch_order
    from cacr.evaluation.protocols.knn import knn_predict
    from cacr.features import encode

    parts = [open_source(options.data, part=part, root=options.data_root) for part in ("train", "test")]
    parts[0] = parts[0].subset(epoch_order(len(parts[0]), 0, 0)[: options.train_images])
    train, test = (encode(encoder, part) for part in parts)
    labels = [torch.from_numpy(part.labels) for part in parts]
    predicted = knn_predict(train.values, labels[0], test.values, k=20, temperature=0.07)
    return float((predicted == labels[1]).double().mean())


def _table(options: argparse.Namespace, done: dict[tuple[str, str, int], float]) -> str:
    """Frameworks as rows, objectives as columns, in Markdown; several seeds give mean and range."""

    def cell(framework: str, objective: str) -> str:
        found = [100 * done[framework, objective, seed] for seed in options.seeds]
        spread = f" ({min(found):.1f}-{max(found):.1f})" if len(found) > 1 else ""
        return f"{mean(found):.1f}{spread}"

    lines = [
        f"| | {' | '.join(options.objectives)} |",
        "|---" * (len(options.objectives) + 1) + "|",
        *(f"| {f} | {' | '.join(cell(f, o) for o in options.objectives)} |" for f in options.frameworks),
        f"| untrained | {' | '.join([cell('untrained', '')] * len(options.objectives))} |",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
