"""What an encoder of CIFAR-10 is worth elsewhere: CACR and InfoNCE at the same budget, several seeds.

Stage ``pretrain`` trains an eighth-width ``small_alexnet`` on CIFAR-10 with CACR (five views of 128 images per
step) and with InfoNCE (two views of 320), so that both see the same number of views in the same number of
steps. The settings of either are those that single-seed pilots found best for short runs: t- = 4 for CACR, a
temperature of 0.1 for InfoNCE, three times the paper's learning rate for both.

Stage ``fewshot`` trains linear classifiers on five labels per class of every data set in ``--sets`` by the ELEVATER
protocol, three draws, beside the untrained encoder of the same seed; ``--judge best`` chooses settings by their best
epoch, as the benchmark's code does, and not by their last.

Stage ``labels`` gives label-efficiency curves on CIFAR-10: a linear probe and fine-tuning with 1 %, 10 % and all of
the labels. Fine-tuning chooses between two learning rates on validation images, and has one rate with all labels.

What is finished is kept in ``--out`` and not repeated, so it can be stopped at any time. Every number is a line of
``results.jsonl`` as soon as it is known; ``tables`` prints them as means and standard deviations over seeds.

    python benchmarks/transfer.py pretrain --data-root DATA --out runs/transfer
    python benchmarks/transfer.py fewshot --sets DATA/transfer --out runs/transfer
    python benchmarks/transfer.py labels --data-root DATA --out runs/transfer
    python benchmarks/transfer.py tables --out runs/transfer
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

METHODS: dict[str, dict[str, Any]] = {
    "cacr": {"objective": "cacr", "views": 5, "batch_size": 128, "t_neg": 4.0},
    "info_nce": {"objective": "info_nce", "views": 2, "batch_size": 320, "temperature": 0.1},
}
"""640 views per step, whatever the method."""

SHARES: dict[str, dict[str, Any]] = {
    "1 %": {"labels_per_class": 50, "draws": 1, "epochs": 1, "min_steps": 150, "lrs": (0.03, 0.3)},
    "10 %": {"labels_per_class": 500, "draws": 1, "epochs": 1, "min_steps": 300, "lrs": (0.03, 0.3)},
    "100 %": {"epochs": 2, "min_steps": 1, "lrs": (0.1,)},
}
"""Fine-tuning with each share of CIFAR-10's labels."""


def main() -> None:
    stages = {"pretrain": pretrain_all, "fewshot": few_shot, "labels": label_curves, "tables": print_tables}
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("stage", nargs="?", choices=list(stages), default="pretrain")
    parser.add_argument("--data-root", type=Path, default=Path("data"), help="where CIFAR-10 lies")
    parser.add_argument("--sets", type=Path, default=Path("data/transfer"), help="folder of data sets")
    parser.add_argument("--out", type=Path, default=Path("runs/transfer"), help="folder for runs and results")
    parser.add_argument("--steps", type=int, default=200, help="of each pretraining, 640 views each")
    parser.add_argument("--width", type=float, default=0.125, help="of small_alexnet")
    parser.add_argument("--judge", choices=["last", "best"], default="last", help="epoch settings count by")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    stages[options.stage](options)


def pretrain_all(options: argparse.Namespace) -> None:
    """Train every method with every seed, or go on where it was stopped."""
    from cacr import pretrain

    for seed in options.seeds:  # seed by seed, so that a part of them is a fair comparison too
        for method, settings in METHODS.items():
            pretrain(
                data="cifar10",
                data_root=options.data_root,
                out=options.out / f"{method}-seed{seed}",
                resume=True,
                encoder="small_alexnet",
                width=options.width,
                max_steps=options.steps,
                seed=seed,
                **settings,
            )


def finished_runs(options: argparse.Namespace) -> Iterator[tuple[str, int, Path, tuple[str, ...]]]:
    """Method, seed and folder of every run whose pretraining has ended, and the baselines to measure with it."""
    from cacr.encoders import load_encoder

    for seed in options.seeds:
        for method in METHODS:
            run = options.out / f"{method}-seed{seed}"
            done = (run / "encoder.json").exists() and load_encoder(run).info.training.get("finished", False)
            if done:
                yield method, seed, run, ("untrained",) if method == "cacr" else ()
            else:
                print(f"{run} is not finished: left out", flush=True)


def few_shot(options: argparse.Namespace) -> None:
    """Five labels per class of every data set."""
    from cacr import evaluate_suite

    for method, seed, run, baselines in finished_runs(options):
        report = evaluate_suite(
            run=run,
            data=f"suite:{options.sets}",
            protocol="fewshot",
            baselines=baselines,
            seed=seed,
            judge=options.judge,
        )
        for (name, _, contestant), result in report.results.items():
            subject = method if contestant == "encoder" else contestant
            add(options, f"{_few_shot(options)} {name}", subject, seed, result.score, result.metric)
        for failure in report.failures:
            print(f"{run}: {failure}", flush=True)


def _few_shot(options: argparse.Namespace) -> str:
    return "fewshot" if options.judge == "last" else "fewshot, judge=best:"


def label_curves(options: argparse.Namespace) -> None:
    """Linear probes and fine-tuning with a share of CIFAR-10's labels."""
    from cacr import evaluate

    runs = list(finished_runs(options))
    # Share by share, each with all seeds, so that what is done after any time are whole rows of the table.
    for protocol in ("linear", "finetune"):
        for share, settings in SHARES.items():
            few = {name: value for name, value in settings.items() if name in ("labels_per_class", "draws")}
            chosen = few if protocol == "linear" else settings
            for method, seed, run, baselines in runs:
                if f"{protocol} {share}" in known(options, method, seed):
                    continue
                for result in evaluate(
                    run=run,
                    data="cifar10",
                    data_root=options.data_root,
                    protocol=protocol,
                    baselines=baselines,
                    seed=seed,
                    **chosen,
                ):
                    subject = method if result.subject == "encoder" else result.subject
                    add(options, f"{protocol} {share}", subject, seed, result.score, result.metric)


def add(options: argparse.Namespace, what: str, subject: str, seed: int, score: float, metric: str) -> None:
    """Append a number, once."""
    if what in known(options, subject, seed):
        return
    line = {"what": what, "subject": subject, "seed": seed, "score": score, "metric": metric}
    print(line, flush=True)
    with (options.out / "results.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def known(options: argparse.Namespace, subject: str, seed: int) -> set[str]:
    """What has been measured of a subject."""
    return {line["what"] for line in read(options) if (line["subject"], line["seed"]) == (subject, seed)}


def read(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All lines so far."""
    path = options.out / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def print_tables(options: argparse.Namespace) -> None:
    """Means and standard deviations over seeds, as a table in Markdown."""
    lines = [line for line in read(options) if line["seed"] in options.seeds]
    subjects = [*METHODS, "untrained"]
    print(f"| | metric | {' | '.join(subjects)} |\n|---|---|{'---|' * len(subjects)}")
    for what in dict.fromkeys(line["what"] for line in lines):
        cells = []
        for subject in subjects:
            found = [line["score"] for line in lines if (line["what"], line["subject"]) == (what, subject)]
            spread = f" ± {100 * stdev(found):.1f}" if len(found) > 1 else ""
            cells.append(f"{100 * mean(found):.1f}{spread} ({len(found)})" if found else "")
        metric = next(line["metric"] for line in lines if line["what"] == what)
        print(f"| {what} | {metric} | {' | '.join(cells)} |")
    whats = dict.fromkeys(line["what"] for line in lines)
    wanted = [what for what in whats if what.startswith(f"{_few_shot(options)} ")]
    for subject in subjects:
        by_seed = [
            [
                line["score"]
                for line in lines
                if line["what"] in wanted and (line["subject"], line["seed"]) == (subject, seed)
            ]
            for seed in options.seeds
        ]
        means = [mean(scores) for scores in by_seed if len(scores) == len(wanted) > 0]
        if means:
            spread = f" ± {100 * stdev(means):.1f}" if len(means) > 1 else ""
            print(
                f"mean of {len(wanted)} sets, {subject}: {100 * mean(means):.1f}{spread} ({len(means)} seeds)"
            )


if __name__ == "__main__":
    main()
