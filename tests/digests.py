"""A guard of refactorings: digests of everything that a dozen small runs compute and write.

    python -m tests.digests write before.json      # before the first move
    python -m tests.digests compare before.json    # after the last one: every digest must be the same

Bit for bit on one machine with one version of torch; other machines add numbers up in another order. Versions,
places and clocks are left out of the digests. What differs is named.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one order of sums

import numpy as np
import torch

import cacr
from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint
from cacr.training.loop import loop
from tests.conftest import TINY, save_images

CLOCKS = {"images_per_second", "data_wait"}
FRAMEWORKS = {
    "in_batch": {},
    "queue": {"framework": "queue"},
    "momentum": {"framework": "momentum"},
    "info_nce": {"objective": "info_nce", "encode_chunk": 4},
    "imbalance": {"imbalance": "linear", "accumulate": 2},
}
SOURCES = ("photos", "arrays.npz", "classes")
RUN = {**TINY, "epochs": 2, "log_every_steps": 1, "checkpoint_every_steps": 1}


def make_data() -> None:
    """Photos of two sizes, arrays, and classes with a test part, in the current folder."""
    save_images(Path("photos/a"), 8, size=40)
    save_images(Path("photos/b"), 9, size=44, seed=1)
    for number, name in enumerate(("apples", "pears", "plums")):
        save_images(Path("classes/train") / name, 10 + number, size=36, seed=number)
        save_images(Path("classes/test") / name, 6, size=36, seed=10 + number)
    rng = np.random.default_rng(0)
    np.savez("arrays.npz", x=rng.integers(0, 256, (24, 20, 18, 3), dtype=np.uint8), y=np.arange(24) % 3)


def everything() -> Iterator[tuple[str, Any]]:
    """Names and what is digested under them; the current folder is filled."""
    make_data()
    for source in SOURCES:
        for name, settings in FRAMEWORKS.items():
            if name == "imbalance" and source == "photos":
                continue  # it has no classes
            out = Path("runs") / f"{source}-{name}"
            cacr.pretrain(data=source, out=out, **{**RUN, **settings})
            yield from _of_run(out)
    for source, name in (("photos", "queue"), ("arrays.npz", "momentum"), ("classes", "in_batch")):
        out = Path("runs") / f"{source}-{name}-resumed"
        with mock.patch.object(loop, "_agreed", lambda fabric, stop, step: step == 3):
            cacr.pretrain(data=source, out=out, **{**RUN, **FRAMEWORKS[name]})
        cacr.pretrain(out=out, resume=True)
        yield from _of_run(out)
    run = Path("runs/classes-in_batch")
    protocols = ("knn", "linear", "retrieval", "cluster", "fewshot", "linear-paper")
    results = cacr.evaluate(
        run=run,
        data="classes",
        protocol=protocols,
        baselines=("untrained", "pixels"),
        search="quick",
        workers=0,
        epochs=3,
    )
    for result in results:
        plain = {n: value for n, value in vars(result).items() if n not in ("versions", "held_out")}
        plain["notes"] = (
            plain.pop("assumptions") + result.notes
        )  # one list, when the digests were first written
        yield f"{result.protocol} of {result.subject}", plain
    cacr.embed(run=run, data="photos", out="features.npz")
    with np.load("features.npz") as stored:
        yield "features", {name: stored[name].tolist() for name in stored.files}
    found = cacr.search(run=run, image="classes/test/pears/image000.png", data="photos", k=4, cache=False)
    yield "search", [(near.name, near.similarity) for near in found.neighbours]
    _stop_clocks(run)
    page, _ = cacr.report(runs=run, points=20)
    yield "page", page.read_text(encoding="utf-8")
    for drawn in cacr.figures(runs=[run], out="figures", only=["entropy", "weights"]):
        yield f"figure {drawn.name}", [path.name for path in drawn.files]


def _stop_clocks(run: Path) -> None:
    """Leave speeds, which no two runs share, out of what the page shows."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    same = [{name: 1.0 if name in CLOCKS else value for name, value in row.items()} for row in rows]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in same))


def _of_run(out: Path) -> Iterator[tuple[str, Any]]:
    yield f"{out.name}: encoder", (out / "encoder.safetensors").read_bytes()
    yield f"{out.name}: description", json.loads((out / "encoder.json").read_text())
    state = load_checkpoint(list_checkpoints(out / "checkpoints")[-1][1])
    yield f"{out.name}: checkpoint", state
    lines = (out / "metrics.jsonl").read_text().splitlines()
    rows = [{name: v for name, v in json.loads(line).items() if name not in CLOCKS} for line in lines]
    yield f"{out.name}: metrics", rows
    yield f"{out.name}: settings", (out / "config.yaml").read_text().split("settings:", 1)[1]
    for name in ("verdict.json", "held_out.json"):
        if (out / name).exists():
            yield f"{out.name}: {name}", json.loads((out / name).read_text())


def digest(thing: Any) -> str:
    """Sixteen digits of a value; the folder that it was made in is not part of it."""
    summary = hashlib.blake2b(digest_size=8)

    def add(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            add([str(value.dtype), list(value.shape), value.contiguous().view(-1).numpy().tobytes()])
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                add(str(key))
                add(value[key])
        elif isinstance(value, list | tuple):
            summary.update(b"[")
            for item in value:
                add(item)
            summary.update(b"]")
        elif isinstance(value, bytes):
            summary.update(value)
        else:
            summary.update(str(value).replace(str(Path.cwd()), "HERE").encode())

    add(thing)
    return summary.hexdigest()


def compute() -> dict[str, str]:
    """All digests by name, from an empty folder that is removed afterwards."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return {name: digest(thing) for name, thing in everything()}
        finally:
            os.chdir(before)


def main() -> int:
    """Write digests, or compare with those that were written."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    file = arguments.file.absolute()
    found = compute()
    if arguments.what == "write":
        file.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    before = json.loads(file.read_text())
    wrong = sorted(name for name in before.keys() | found.keys() if before.get(name) != found.get(name))
    print(f"{len(found)} digests, {len(wrong)} differ", *wrong, sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
