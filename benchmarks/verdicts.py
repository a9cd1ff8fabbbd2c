"""Figures of healthy and of deliberately broken runs: where the bounds of the verdict come from.

Trains every framework with every objective that it takes, and runs broken in known ways, all on the same images
and each for the same few steps, and prints what the diagnostics measured after each epoch with the verdict, the
ranges of what the bounds are about, and every verdict that is wrong. Finished runs are kept in ``--out`` and not
repeated, but judged again.

    python benchmarks/verdicts.py digits --out runs/verdicts
    python benchmarks/verdicts.py cifar10 --data-root DATA --out runs/verdicts-cifar --set max_steps=200
"""

import json
import sys
from pathlib import Path
from typing import Any

from _runs import common_settings, measured, run_options
from rich.console import Console
from rich.table import Table

ANY_COLLAPSE = ("collapsed to a point", "dimensional collapse", "diverging", "not sure yet")
"""Of runs whose figures go up and down: they differ from processor to processor, and must never be called healthy."""

BROKEN: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no repulsion": ({"repulsion": 0.0}, ("collapsed to a point",)),
    "weight decay 1": ({"weight_decay": 1.0}, ("collapsed to a point",)),
    "repels far images": ({"neg_weights": "flipped"}, ANY_COLLAPSE),
    "learning rate 1e-8": ({"lr": 1e-8}, ("not learning",)),
    "learning rate 300": ({"lr": 300.0}, ANY_COLLAPSE),
    "barlow twins, learning rate 1e3": ({"objective": "barlow_twins", "lr": 1e3}, ANY_COLLAPSE),
}
"""Settings of runs that cannot work, and what their last verdict may be."""

FIGURES = ("d+ / d-", "negative_distance", "effective_rank", "loss", "uniformity", "entropy", "knn")
BOUNDED = FIGURES[:3]
"""Figures that the verdict has bounds for."""


def main() -> int:
    options = run_options(__doc__, out="runs/verdicts", epochs=4).parse_args()

    from cacr.frameworks import FRAMEWORKS
    from cacr.losses import OBJECTIVES

    runs: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
        f"{framework}-{objective}": ({"framework": framework, "objective": objective}, ("healthy",))
        for framework in FRAMEWORKS
        for objective in OBJECTIVES
        if FRAMEWORKS[framework].refusal(OBJECTIVES[objective]()) is None
    }
    runs |= BROKEN
    base = common_settings(options)
    title = f"{options.data}, {options.views} views, batches of {options.batch_size}, width {options.width:g}"
    every = Table("run", "step", *FIGURES, "verdict", title=title)
    ranges = Table("after a verdict", *BOUNDED, title="from the least to the largest")
    judged: dict[str, list[dict[str, Any]]] = {}
    wrong = []
    for name, (settings, expected) in runs.items():
        if options.only is None or name in options.only:
            rows = judged_rows(options.out / name.replace(" ", "-"), base | settings)
            for row in rows:
                values = [f"{row[figure]:.3g}" if figure in row else "" for figure in FIGURES]
                every.add_row(name, str(row["step"]), *values, row["verdict"])
            kind = name if name in BROKEN else "healthy"
            judged.setdefault(kind, []).extend(row for row in rows if row["verdict"])
            told = [row["verdict"] for row in rows if row["verdict"]] or ["none"]
            alarms = told if name not in BROKEN else told[-1:]
            wrong += [f"{name}: {verdict}" for verdict in alarms if verdict not in expected]
    for kind, rows in judged.items():
        values = [[row[figure] for row in rows if figure in row] for figure in BOUNDED]
        ranges.add_row(kind, *(f"{min(v):.3g} to {max(v):.3g}" if v else "" for v in values))
    console = Console(width=160)
    for table in (every, ranges):
        console.print(table)
    console.print(f"wrong verdicts: {'; '.join(wrong) or 'none'}")
    return int(bool(wrong))


def judged_rows(out: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Each measurement with the verdict after it, empty where it was too early; a divergence ends without one.

    Runs that were kept are judged again, so that other bounds can be tried on them.
    """
    from cacr.diagnostics.verdict import judge
    from cacr.runs.run import Run

    measured(out, settings)
    run = Run.open(out)
    images = json.loads((run.folder.diagnostics / "how.json").read_text(encoding="utf-8"))["images"]
    every, rows = run.rows, []
    for number, row in enumerate(every, 1):
        if "effective_rank" in row:
            verdict = judge(every[:number], images=images, dim=run.settings.dim)
            nearness = row["positive_distance"] / max(row["negative_distance"], 1e-12)
            rows.append({**row, "d+ / d-": nearness, "verdict": verdict.verdict if verdict else ""})
    history = run.verdict.history if run.verdict else []
    ends = [past for past in history if past.step > rows[-1]["step"]]
    return rows + [{"step": past.step, "verdict": past.verdict} for past in ends]


if __name__ == "__main__":
    sys.exit(main())
