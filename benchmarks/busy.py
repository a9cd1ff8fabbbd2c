"""Speed of training on a machine that is shared: the part of its fair share of the processor that it makes use of.

Trains for some seconds on the machine as it is, then while other processes compute without end, in turns. A process of
t threads beside c others of one thread gets t / (t + c) of the cores' time if the system is fair, or all that its
threads can use if there is enough for everybody. Threads that wait for each other at barriers can lose most of it:

    used = (speed beside the others / speed alone) / (share of the cores' time that is fair)

    python benchmarks/busy.py cifar10 --data-root DATA              # three other processes, the goal is 0.8
    OMP_WAIT_POLICY=ACTIVE python benchmarks/busy.py cifar10 --data-root DATA       # as without our setting
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GOAL = 0.8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data")
    parser.add_argument("--data-root")
    parser.add_argument("--others", type=int, default=3, help="processes that compute without end")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    threads = threads_of_a_run()
    alone, beside = [], []
    for number in range(options.rounds):
        alone.append(train(options))
        with competitors(options.others):
            beside.append(train(options))
        print(
            f"round {number + 1}: {alone[-1]:.0f} images/s alone, {beside[-1]:.0f} beside others", flush=True
        )
    most = min(threads, cores)
    fair = min(1.0, cores * threads / (threads + options.others) / most)
    kept = statistics.median(beside) / statistics.median(alone)
    print(
        f"{cores} cores, {threads} threads, {options.others} others: {kept:.2f} of the speed, {fair:.2f} would be fair"
    )
    print(f"used {kept / fair:.2f} of the fair share; the goal is {GOAL}")
    return int(kept / fair < GOAL)


@contextmanager
def competitors(count: int) -> Iterator[None]:
    """Processes of one thread that never wait."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def train(options: argparse.Namespace) -> float:
    """Images per second of the later steps of a training, as a user starts it."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        values = {
            "measure_every_epochs": 0,
            "log_every_steps": 5,
            "max_steps": options.steps,
            "image_size": 32,
        }
        command = [sys.executable, "-m", "cacr", "pretrain", options.data, "--out", str(out)]
        command += [f"--data-root={options.data_root}"] if options.data_root else []
        command += [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        speeds = [row["images_per_second"] for row in rows if "images_per_second" in row]
    return statistics.median(speeds[len(speeds) // 4 :])  # the first steps warm caches


def threads_of_a_run() -> int:
    """How many PyTorch starts in a process of its own."""
    said = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.get_num_threads())"],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(said.stdout)


if __name__ == "__main__":
    sys.exit(main())
