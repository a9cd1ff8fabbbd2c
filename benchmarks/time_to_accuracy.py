"""What a user would pick instead: ``cacr pretrain --time T`` against lightly's SimCLR in the same time, and in 4 T.

Same machine, same encoder (quarter-width ``small_alexnet``), same size of images, same precision, same reader. The
contestants:

- ``cacr``: ``cacr pretrain TRAIN --time T``, nothing set but the size of the images and the encoder;
- ``lightly``: SimCLR as in lightly's own CIFAR-10 benchmark: batches of 128, SGD with momentum 0.9 and a rate of 0.06,
  weight decay 5e-4, a cosine, temperature 0.5, colours at strength 0.5, no blur, its transform in the workers of a
  loader, PyTorch's default weights; for T;
- ``tuned``: the same with the best of six pairs of a rate and a temperature, each tried for ``--trial-minutes``, judged
  on held-out training images; begins with Kaiming's weights, as cacr does; for T and for 4 T.

Accuracy on test images: kNN from all labels and a ridge classifier from 10 labels per class (as in ``sweep.py``). Every
cell is one small JSON file; finished cells are not repeated. The script can be started once per core: each contestant
then has one core, and they share the cells. On an idle machine of two cores, after ``pip install 'cacr[bench]'``:

    taskset -c 0 python benchmarks/time_to_accuracy.py run --data DATA --work runs/time --minutes 5 &
    taskset -c 1 python benchmarks/time_to_accuracy.py run --data DATA --work runs/time --minutes 5 &
    wait
    python benchmarks/time_to_accuracy.py table --minutes 5

``--minutes 15`` uses the same trials.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from _cells import once
from _sets import Parts, prepare
from sweep import READ, accuracies

from cacr.cores import available_cores

RESULTS = Path(__file__).parent / "results" / "time_to_accuracy"
SETS = {"cifar10": 32, "imagenette": 64, "flowers102": 64}
"""Set -> side of the images. Rules were chosen on the first; two of them used the others too (see ``_sets.py``)."""

ENCODER, WIDTH = "small_alexnet", 0.25
BATCH, RATE, TEMPERATURE, STRENGTH = 128, 0.06, 0.5, 0.5
"""Those of lightly's CIFAR-10 benchmark; the strength is that of the colour changes."""

TRIALS: tuple[dict[str, Any], ...] = tuple(
    {"rate": rate, "temperature": temperature, "weights": "kaiming"}
    for rate, temperature in product((RATE / 9, RATE / 3, RATE), (0.1, 0.5))
)
"""Settings of lightly that are tried."""

NORMALISED = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
"""lightly's default: what its encoder is trained with is also what it is measured with."""

POLL = 5.0
"""Seconds between two looks at a trial that another process runs."""

MEASURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "kNN": lambda cell: float(cell["knn"][READ]),
    "10 labels per class": lambda cell: float(cell["ridge"]),
}
"""What is compared."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("action", choices=["run", "table", "cell"])
    parser.add_argument(
        "--data", type=Path, help="folder with cifar-10-batches-py, transfer, imagenette-mini"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/time"), help="arrays and run folders")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--minutes", type=float, default=5.0, help="T")
    parser.add_argument(
        "--trial-minutes", type=float, default=5.0, help="of each trial of lightly's settings"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.action == "table":
        print_table(options)
    elif options.action == "cell":
        settings = json.loads(options.settings)
        print(json.dumps(train_lightly(**settings)))
    else:
        for name in options.sets:
            run_set(name, options)


def run_set(name: str, options: argparse.Namespace) -> None:
    """All cells of a set: tune lightly once, then every contestant with every seed."""
    parts = prepare(name, options.data, options.work / "sets")
    own = {"rate": RATE, "temperature": TEMPERATURE, "weights": "pytorch"}
    best = tuned(name, parts, options)
    title = f"tuned {in_words(best)}"
    least, work = options.minutes, options.work
    for seed in options.seeds:
        cell("cacr", name, least, seed, partial(train_cacr, name, parts, least, seed, work), work)
        for contestant, minutes, values in (
            (title, 4 * least, best),
            (title, least, best),
            ("lightly", least, own),
        ):
            train = partial(alone, name, parts.train, parts.test, minutes, seed, values)
            cell(contestant, name, minutes, seed, train, work)


def tuned(name: str, parts: Parts, options: argparse.Namespace) -> dict[str, Any]:
    """The settings with the best mean accuracy on held-out training images; waits for trials of other processes."""
    while (best := best_trial(name, options.trial_minutes)) is None:
        for values in TRIALS:  # those that no other process runs
            train = partial(alone, name, parts.fit, parts.judge, options.trial_minutes, 0, values)
            cell(f"trial {in_words(values)}", name, options.trial_minutes, 0, train, options.work)
        time.sleep(POLL)
    return best


def best_trial(name: str, minutes: float) -> dict[str, Any] | None:
    """The settings of the best trial on a set; None if some trials are missing."""
    files = [cell_file(f"trial {in_words(values)}", name, minutes, 0) for values in TRIALS]
    if not all(file.exists() for file in files):
        return None
    results = [json.loads(file.read_text()) for file in files]
    scores = [result["knn"][READ] + result["ridge"] for result in results]
    return TRIALS[scores.index(max(scores))]


def in_words(values: dict[str, Any]) -> str:
    """A rate and a temperature, for names of files: ``0.02-0.1``."""
    return f"{values['rate']:.3g}-{values['temperature']:g}"


def cell_file(contestant: str, name: str, minutes: float, seed: int) -> Path:
    return RESULTS / f"{name}-{minutes:g}min-{contestant.replace(' ', '-')}-{seed}.json"


def cell(
    contestant: str, name: str, minutes: float, seed: int, train: Callable[[], dict[str, Any]], work: Path
) -> None:
    """Train and measure, unless another process did or does it."""

    def make() -> dict[str, Any]:
        result = {"contestant": contestant, "set": name, "minutes": minutes, "seed": seed, **train()}
        print(name, f"{minutes:g} min", contestant, seed, result["knn"][READ], result["ridge"], flush=True)
        return result | {"cores": available_cores()}

    once(cell_file(contestant, name, minutes, seed), work, make)


def train_cacr(name: str, parts: Parts, minutes: float, seed: int, work: Path) -> dict[str, Any]:
    """The whole command, page included, within the time."""
    from cacr import load_encoder
    from cacr.runs.run import Run

    run = work / f"{name}-{minutes:g}-{seed}"
    settings = {"image_size": SETS[name], "encoder": ENCODER, "width": WIDTH, "seed": seed}
    command = [
        sys.executable,
        "-m",
        "cacr",
        "pretrain",
        parts.train,
        "--out",
        str(run),
        "--time",
        f"{minutes:g}m",
    ]
    command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    started = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    steps = Run.open(run).settings.max_steps
    found = accuracies(load_encoder(run), parts.train, parts.test, seed)
    return {"steps": steps, "seconds": round(seconds, 1), **found}


def alone(
    name: str, train: str, test: str, minutes: float, seed: int, values: dict[str, Any]
) -> dict[str, Any]:
    """A training with lightly in a process of its own."""
    settings = {"train": train, "test": test, "size": SETS[name], "minutes": minutes, "seed": seed, **values}
    command = [sys.executable, __file__, "cell", "--settings", json.dumps(settings)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return values | found


def train_lightly(
    train: str,
    test: str,
    size: int,
    minutes: float,
    seed: int,
    rate: float,
    temperature: float,
    weights: str,
    width: float = WIDTH,
    keep: str | None = None,
) -> dict[str, Any]:
    """SimCLR with lightly's loss, head and transform until the time is over; the rate falls by a cosine of it.

    Args:
        train: training images, as ``cacr`` takes them.
        test: images that judge.
        size: side of the views.
        minutes: length.
        seed: of weights, order and views.
        rate: the first learning rate.
        temperature: of the loss.
        weights: ``kaiming``, or ``pytorch`` for the default weights of its layers.
        width: of the encoder.
        keep: a folder for the encoder; None: it is not stored.
    """
    import torch
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform

    from cacr.data import open_source
    from cacr.encoders import build_encoder, save_encoder
    from cacr.training.processes.precision import has_fast_bf16

    torch.manual_seed(seed)
    source = open_source(train)
    transform = SimCLRTransform(
        input_size=size, cj_strength=STRENGTH, gaussian_blur=0.0, normalize=NORMALISED
    )

    class Images(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(source)

        def __getitem__(self, index: int) -> Any:
            return transform(source.read(index))

    started, end = time.monotonic(), 60 * minutes
    batch = min(BATCH, len(source))
    loader = torch.utils.data.DataLoader(
        Images(),
        batch_size=batch,
        shuffle=True,
        drop_last=True,
        num_workers=available_cores(),
        persistent_workers=True,
    )
    encoder = build_encoder(ENCODER, image_size=size, width=width, weights="kaiming")
    if weights == "pytorch":
        encoder.backbone.apply(_reset)
    encoder.info = replace(encoder.info, **{name: tuple(values) for name, values in NORMALISED.items()})
    head = SimCLRProjectionHead(encoder.feature_dim, encoder.feature_dim, 128)
    model = torch.nn.Sequential(encoder, head).to(memory_format=torch.channels_last)
    criterion = NTXentLoss(temperature=temperature)
    rate *= batch / BATCH
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    bf16, steps = has_fast_bf16(torch.device("cpu")), 0
    while time.monotonic() - started < end:
        for x0, x1 in loader:
            share = min(1.0, (time.monotonic() - started) / end)
            optimizer.param_groups[0]["lr"] = rate * (1 + math.cos(math.pi * share)) / 2
            views = torch.cat([x0, x1]).to(memory_format=torch.channels_last)
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                z = model(views)
            loss = criterion(*z.float().chunk(2))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if time.monotonic() - started >= end:
                break
    seconds = time.monotonic() - started
    if keep is not None:
        save_encoder(Path(keep), encoder, encoder.info)
    return {"steps": steps, "seconds": round(seconds, 1), **accuracies(encoder.eval(), train, test, seed)}


def _reset(layer: Any) -> None:
    """The weights that PyTorch gives a layer."""
    if hasattr(layer, "reset_parameters"):
        layer.reset_parameters()


def print_table(options: argparse.Namespace) -> None:
    """Mean and spread over seeds of each contestant, and whether cacr at T is above the others."""
    print("| set | contestant | minutes | kNN | 10 labels per class |")
    print("|---|---|---|---|---|")
    for name, contestant, factor in product(
        options.sets, ("cacr", "lightly", *tunings(options.sets)), (1, 4)
    ):
        minutes = factor * options.minutes
        if found := cells_of(contestant, name, minutes):
            texts = [text([c["knn"][READ] for c in found]), text([c["ridge"] for c in found])]
            print(f"| {name} | {contestant} | {minutes:g} | {' | '.join(texts)} |")
    for name, factor in product(options.sets, (1, 4)):
        best = best_trial(name, options.trial_minutes)
        if best is None:
            print(f"{name}: not all trials have been run, so nothing is tuned yet")
            continue
        own = cells_of("cacr", name, options.minutes)
        if own and (other := cells_of(f"tuned {in_words(best)}", name, factor * options.minutes)):
            gains = (f"{title} {beyond(own, other, read)}" for title, read in MEASURES.items())
            print(f"{name}: cacr at T against tuned lightly at {factor} T: {'; '.join(gains)}")


def tunings(sets: list[str]) -> list[str]:
    """The settings of lightly with which there are results on some set."""
    files = (file for name in sets for file in RESULTS.glob(f"{name}-*-tuned-*.json"))
    return sorted({json.loads(file.read_text())["contestant"] for file in files})


def cells_of(contestant: str, name: str, minutes: float) -> list[dict[str, Any]]:
    """The results of a contestant, one for each seed."""
    stem = cell_file(contestant, name, minutes, 0).stem.removesuffix("0")
    files = sorted(RESULTS.glob(f"{stem}[0-9].json"))
    return [json.loads(file.read_text()) for file in files]


def beyond(
    own: list[dict[str, Any]], other: list[dict[str, Any]], read: Callable[[dict[str, Any]], float]
) -> str:
    """The difference of the means in points, and whether it exceeds the spread over seeds of both."""
    values = [[read(cell) for cell in cells] for cells in (own, other)]
    gain = mean(values[0]) - mean(values[1])
    if min(map(len, values)) < 2:
        return f"{100 * gain:+.1f} (one seed)"
    spread = math.hypot(*map(stdev, values))
    word = "above" if gain > spread else "below" if gain < -spread else "within the spread"
    return f"{100 * gain:+.1f} ± {100 * spread:.1f}, {word}"


def text(values: list[float]) -> str:
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
