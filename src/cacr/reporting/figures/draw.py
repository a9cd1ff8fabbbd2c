"""Draw what can be drawn of some runs, and say why the rest cannot."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cacr.errors import UserError
from cacr.registry import nearest
from cacr.reporting.figures.accuracy import VARIED, accuracy_against, accuracy_against_epoch
from cacr.reporting.figures.entropy import entropy_figure
from cacr.reporting.figures.neighbourhood import neighbourhood_figure
from cacr.reporting.figures.style import save
from cacr.reporting.figures.weights import weights_figure
from cacr.runs.run import Run, open_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[int, int], None]

FIGURES: dict[str, str] = {
    "entropy": "conditional entropy of the negatives against epochs, all runs in one plot",
    "weights": "a query with its positives and negatives as images, their weights as bars; one for each run",
    "tsne": "the neighbourhood of a query at several epochs; one for each run",
    "accuracy-epoch": "accuracy against epochs, all runs in one plot",
    **{
        f"accuracy-{name}": f"accuracy of several runs against {varied.axis}"
        for name, varied in VARIED.items()
    },
}
"""What can be asked for by name, and what it shows."""


@dataclass(frozen=True)
class Drawn:
    """What became of one figure.

    Attributes:
        name: of the figure.
        files: that were written, PNG and SVG.
        reason: why there are none.
    """

    name: str
    files: tuple[Path, ...] = ()
    reason: str = ""


def draw_figures(
    paths: Sequence[Path],
    *,
    out: Path | None = None,
    only: Sequence[str] = (),
    query: int = 0,
    progress: Progress | None = None,
) -> list[Drawn]:
    """Draw figures of run folders, each as PNG and SVG.

    Args:
        paths: run folders.
        out: folder for the files. Default: ``figures`` in the run folder, or for several runs in the current one.
        only: names of figures, see :data:`FIGURES`. Default: all that can be drawn.
        query: which of the kept images is the query.
        progress: called with the number of figures done and in all.

    Raises:
        UserError: an unknown name; one that was asked for cannot be drawn; or nothing at all can.
    """
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise UserError(f"there is no figure {unknown[0]!r}; {nearest(unknown[0], list(FIGURES))}")
    runs = open_runs(paths)
    folder = out or (paths[0] / "figures" if len(paths) == 1 else Path("figures"))
    jobs = list(_jobs(runs, query, tuple(only) or tuple(FIGURES)))
    drawn = []
    for done, (name, file, make) in enumerate(jobs, 1):
        try:
            drawn.append(Drawn(name, tuple(save(make(), folder, file))))
        except UserError as error:
            if only:
                raise UserError(f"{name}: {error}") from None
            drawn.append(Drawn(name, reason=str(error)))
        if progress is not None:
            progress(done, len(jobs))
    if not any(item.files for item in drawn):
        raise UserError(
            "nothing can be drawn:" + "".join(f"\n  {item.name}: {item.reason}" for item in drawn)
        )
    return drawn


def _jobs(
    runs: Sequence[Run], query: int, names: Sequence[str]
) -> Iterator[tuple[str, str, "Callable[[], Figure]"]]:
    """(name, file, what draws it) of each figure."""
    for name in names:
        if name == "entropy":
            yield name, name, partial(entropy_figure, runs)
        elif name == "accuracy-epoch":
            yield name, name, partial(accuracy_against_epoch, runs)
        elif name.startswith("accuracy-"):
            yield name, name, partial(accuracy_against, runs, name.removeprefix("accuracy-"))
        else:
            draw = weights_figure if name == "weights" else neighbourhood_figure
            for run in runs:
                yield name, name if len(runs) == 1 else f"{name}-{run.name}", partial(draw, run, query)
