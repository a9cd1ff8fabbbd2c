"""What scripts share that train many short runs: their options, and a training that is not repeated."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def run_options(docstring: str, *, out: str, epochs: int) -> argparse.ArgumentParser:
    """The options that such scripts have in common.

    Args:
        docstring: of the script.
        out: the folder for the runs, by default.
        epochs: of each run, by default.
    """
    parser = argparse.ArgumentParser(description=docstring.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("--data-root", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path(out), help="folder for the runs")
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--width", type=float, default=0.1)
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--only", nargs="+", help="names of runs")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting")
    return parser


def common_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Settings of every run, as the options have them."""
    from cacr.reading.settings import parse_assignment

    return {
        "data": options.data,
        "data_root": options.data_root,
        "epochs": options.epochs,
        "encoder": "small_alexnet",
        "width": options.width,
        "views": options.views,
        "batch_size": options.batch_size,
        "measure_every_epochs": 1,
        **dict(parse_assignment(text) for text in options.set),
    }


def measured(out: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Train, or go on with what is there, under the eyes of the diagnostics; returns what they measured.

    A run that diverges says so and leaves what was measured before. Ctrl-C ends the script.
    """
    from cacr.diagnostics.observer import observe
    from cacr.errors import UserError
    from cacr.runs.run import Run
    from cacr.training.pretrain import pretrain

    summary = out / "encoder.json"
    finished = summary.exists() and json.loads(summary.read_text(encoding="utf-8"))["training"]["finished"]
    try:
        if not finished and pretrain(settings, out, resume=True, observe=observe).status == "interrupted":
            sys.exit(130)
    except UserError as error:
        print(f"{out.name}: {error}")
    return [row for row in Run.open(out).rows if "effective_rank" in row]
