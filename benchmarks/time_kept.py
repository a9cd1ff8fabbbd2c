"""Seconds that ``cacr pretrain --time T`` takes over those that were asked for, page included, on given folders.

Each command runs in a process of its own, one after the other, as a user starts it. The machine should be idle: on one
that becomes slower a run takes longer, because its steps are settled when it begins.

    python benchmarks/time_kept.py photos/ cells/ --time 3m --time 10m
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 0.05


def kept(data: str, asked: str, more: list[str]) -> tuple[float, float, str]:
    """Seconds asked for, seconds taken, and what was chosen."""
    from cacr.durations import seconds_of
    from cacr.runs.run import Run

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "cacr", "pretrain", data, "--out", str(out), "--time", asked, *more]
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        taken = time.monotonic() - started
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        run = Run.open(out)
        settings, loop = run.settings, _seconds_of_steps(done.stdout)
    chosen = (
        f"{settings.max_steps:,} steps, {settings.encoder} x {settings.width:g}, {settings.image_size} px, "
        f"{settings.views} views, batches of {settings.batch_size}{loop}"
    )
    return float(seconds_of(asked)), taken, chosen


def _seconds_of_steps(printed: str) -> str:
    """What the last line of the progress says, to tell the loop from what comes before and after it."""
    lines = [line for line in printed.splitlines() if "done in" in line]
    return f"; the loop was done in {lines[-1].split('done in')[1].strip()}" if lines else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", nargs="+", help="folders of images, or names of data sets")
    parser.add_argument(
        "--time", action="append", help="how long a run shall take; may be repeated (default: 3m)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="other settings")
    options = parser.parse_args()
    more = [part for setting in options.set for part in ("--set", setting)]
    worst = 0.0
    for data in options.data:
        for written in options.time or ["3m"]:
            asked, taken, chosen = kept(data, written, more)
            worst = max(worst, abs(taken / asked - 1))
            print(
                f"{data}: asked {asked:.0f} s, taken {taken:.1f} s, ratio {taken / asked:.3f} ({chosen})",
                flush=True,
            )
    print(f"worst: {worst:.1%} from what was asked for (limit {LIMIT:.0%})")
    raise SystemExit(worst > LIMIT)


if __name__ == "__main__":
    main()
