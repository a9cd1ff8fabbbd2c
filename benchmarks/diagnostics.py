"""Share of an epoch's time that the diagnostics take, on CIFAR-10 or other data, against the limit of 3 %.

Trains for some steps as ``cacr pretrain`` does, measures as it does, and prints the time of a measurement over
that of an epoch: the images of the data over the median rate of the steps.

    python benchmarks/diagnostics.py cifar10 --data-root DATA --width 0.25
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

LIMIT = 0.03
LOOKS = 3
seconds: list[float] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    parser.add_argument("--width", type=float, default=0.25)
    parser.add_argument("--views", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    from cacr.diagnostics.observer import RunObserver
    from cacr.runs.run import Run
    from cacr.training.loop.observer import Seen
    from cacr.training.pretrain import pretrain

    class Timed(RunObserver):
        """Looks several times and notes how long it took."""

        def look(self, step: int, epoch: float, figures: Mapping[str, float]) -> Seen:
            for _ in range(LOOKS):
                started = time.perf_counter()
                seen = super().look(step, epoch, figures)
                seconds.append(time.perf_counter() - started)
            return seen

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        settings = {
            "data": options.data,
            "data_root": options.data_root,
            "encoder": "small_alexnet",
            "width": options.width,
            "views": options.views,
            "max_steps": options.steps,
            "log_every_steps": 1,
        }
        pretrain(settings, out, observe=Timed)
        run = Run.open(out)
        rows = [row for row in run.rows if "images_per_second" in row][options.steps // 4 :]
        rate = statistics.median(row["images_per_second"] for row in rows)
        every = run.settings.measure_every_epochs
        images = run.training.images
    epoch, look = images / rate, statistics.median(seconds[1:])  # the first one warms caches
    share = look / (epoch * every)
    print(f"{options.data}, width {options.width:g}, {options.views} views: an epoch takes {epoch:.1f} s,")
    print(f"a measurement {look:.2f} s, every {every} epochs: {share:.2%} of the time (limit {LIMIT:.0%})")
    raise SystemExit(share > LIMIT)


if __name__ == "__main__":
    main()
