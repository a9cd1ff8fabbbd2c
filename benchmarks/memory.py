"""Estimated and measured memory of a run.

    python benchmarks/memory.py [--only NAME ...] [--out FILE.json]

Every case is a run of three steps in a process of its own, with one thread: first what `cacr pretrain` says before
anything is loaded, then the peak of the run itself, its diagnostics included. The peak is that of resident memory of
the process (VmHWM), and with files what its decoding processes hold for themselves beside it, looked at twenty
times a second. The limit is a ratio from 0.8 to 1.2.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

CASES: dict[str, dict[str, Any]] = {
    "alexnet/4 32 px": {"encoder": "small_alexnet", "width": 0.25, "image_size": 32, "views": 2, "batch_size": 256},
    "alexnet/4 64 px, queue": {
        "encoder": "small_alexnet", "width": 0.25, "image_size": 64, "views": 8, "batch_size": 64, "framework": "queue",
    },
    "alexnet/4 64 px, files": {
        "encoder": "small_alexnet", "width": 0.25, "image_size": 64, "views": 5, "batch_size": 128, "files": True,
        "workers": 2,
    },
    "alexnet 64 px": {"encoder": "small_alexnet", "width": 1, "image_size": 64, "views": 5, "batch_size": 64},
    "alexnet 32 px, momentum": {
        "encoder": "small_alexnet", "width": 1, "image_size": 32, "views": 2, "batch_size": 256,
        "framework": "momentum",
    },
    "resnet10t 128 px, files": {
        "encoder": "resnet10t", "image_size": 128, "views": 5, "batch_size": 64, "files": True, "workers": 2,
    },
    "resnet10t 64 px, chunks": {
        "encoder": "resnet10t", "image_size": 64, "views": 8, "batch_size": 256, "encode_chunk": 64,
    },
    "resnet18 32 px": {"encoder": "resnet18", "image_size": 32, "views": 5, "batch_size": 64},
    "resnet18 64 px, queue": {
        "encoder": "resnet18", "image_size": 64, "views": 2, "batch_size": 64, "framework": "queue",
    },
    "resnet18 32 px, float32": {
        "encoder": "resnet18", "image_size": 32, "views": 2, "batch_size": 256, "precision": "float32",
    },
    "resnet18 128 px, momentum": {
        "encoder": "resnet18", "image_size": 128, "views": 2, "batch_size": 64, "framework": "momentum",
    },
    "vit_tiny 224 px": {"encoder": "vit_tiny_patch16_224", "image_size": 224, "views": 2, "batch_size": 64},
    "vit_tiny 224 px, momentum, chunks": {
        "encoder": "vit_tiny_patch16_224", "image_size": 224, "views": 5, "batch_size": 64, "framework": "momentum",
        "encode_chunk": 16,
    },
}  # fmt: skip
"""Frameworks, encoders, views, sizes, batches, arrays and files, chunks: each of them more than once."""

LIMITS = 0.8, 1.2
IMAGES = 512


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("--only", nargs="+", choices=CASES, help="names of cases")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(CASES[options.case])))
        return 0
    rows = {}
    print(f"{'case':<36} {'said':>8} {'peak':>8} ratio  parts")
    for name in options.only or CASES:
        command = [sys.executable, __file__, "--case", name]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        row = rows[name] = json.loads(told.splitlines()[-1])
        row["ratio"] = row["said"] / row["peak"]
        parts = ", ".join(f"{part} {size / 1e9:.2f}" for part, size in row["parts"].items())
        said, peak = row["said"] / 1e9, row["peak"] / 1e9
        print(f"{name:<36} {said:5.2f} GB {peak:5.2f} GB {row['ratio']:5.2f}  {parts}", flush=True)
    worst = max(rows, key=lambda name: abs(rows[name]["ratio"] - 1))
    print(f"worst: {worst}, {rows[worst]['ratio']:.2f}; limits {LIMITS[0]} to {LIMITS[1]}")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0 if all(LIMITS[0] <= row["ratio"] <= LIMITS[1] for row in rows.values()) else 1


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """What is said of one run and what it takes, in bytes."""
    from cacr.diagnostics.observer import observe
    from cacr.training.building.data import describe_images
    from cacr.training.cost.need import training_need
    from cacr.training.cost.place import Place
    from cacr.training.pretrain import pretrain
    from cacr.training.settings.check import check_settings

    settings = {**case, "max_steps": 3, "epochs": 3, "measure_every_epochs": 1}
    files = settings.pop("files", False)
    with tempfile.TemporaryDirectory() as folder:
        settings["data"] = str(make_images(Path(folder), case["image_size"], files=files))
        asked = check_settings(settings)
        data = describe_images(asked)
        resolved = Place.of(asked).resolved(asked, data)
        need = training_need(resolved, data, page=False)
        with Children() as children:
            sys.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)  # what the run prints is not the answer
            pretrain(settings, Path(folder) / "run", observe=observe)
            sys.stdout.flush()
            os.dup2(kept, 1)
    peak = _status("self", "VmHWM:") + children.peak
    return {"said": need.total, "peak": peak, "children": children.peak, "parts": need.parts}


def make_images(folder: Path, size: int, *, files: bool) -> Path:
    """Images of noise: one array, or a JPEG each, half as large again as the views."""
    import numpy as np
    from PIL import Image

    draw = np.random.default_rng(0)
    if not files:
        np.savez(folder / "images.npz", x=draw.integers(0, 256, (IMAGES, size, size, 3), dtype=np.uint8))
        return folder / "images.npz"
    (folder / "images").mkdir()
    for number in range(IMAGES):
        pixels = draw.integers(0, 256, (size * 3 // 2, size * 3 // 2, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{number}.jpg")
    return folder / "images"


class Children:
    """Looks at the child processes while it is entered: the most that they hold for themselves, together."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Children":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        own = os.getpid()
        while not self._over.is_set():
            found = Path(f"/proc/{own}/task/{own}/children").read_text().split()
            ready = {number: size for child in found for number, size in _batches(child).items()}
            for number in _batches("self"):  # resident here, and inherited by the children
                ready.pop(number, None)
            self.peak = max(self.peak, sum(map(_private, found)) + sum(ready.values()))
            time.sleep(0.05)


def _private(process: str) -> int:
    """Bytes that a process shares with no other."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has just ended
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _batches(process: str) -> dict[int, int]:
    """Bytes of shared memory that a process has open, by number: batches that are ready."""
    found = {}
    with contextlib.suppress(OSError):  # it has just ended, or closed one of them
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                if "/shm/" in str(entry.readlink()):
                    status = entry.stat()
                    found[status.st_ino] = 512 * status.st_blocks
    return found


def _status(process: str, field: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    sys.exit(main())
