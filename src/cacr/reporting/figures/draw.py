"""Draw the figures that are possible for some runs, and say why the others are not."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cacr.data.prepare import Progress
from cacr.errors import UserError
from cacr.reporting.figures.registry import FIGURES, Drawing
from cacr.reporting.figures.style import save
from cacr.runs.run import Run, open_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawn:
    """Result of drawing one figure.

    Attributes:
        name: name of the figure.
        files: the PNG and SVG files.
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
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> list[Drawn]:
    """Draw figures of run folders, each as PNG and SVG.

    Args:
        paths: run folders.
        out: folder for the files. Default: ``figures`` in the run folder, or for several runs in the current folder.
        only: names of figures, see :data:`FIGURES`. Default: all that can be drawn.
        query: number of the stored image that is the query.
        names: names of the runs; default: those of their folders.
        progress: called with the number of figures done and the total.

    Raises:
        UserError: a name is unknown, a figure that was asked for cannot be drawn, or nothing can be drawn.
    """
    requested = list(only) or FIGURES.names()
    kinds = {name: FIGURES[name] for name in requested}  # report an unknown name before anything is read
    runs = open_runs(paths, names)
    folder = out or (paths[0] / "figures" if len(paths) == 1 else Path("figures"))
    jobs = list(_jobs(runs, query, kinds))
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
    runs: Sequence[Run], query: int, kinds: Mapping[str, Drawing]
) -> Iterator[tuple[str, str, "Callable[[], Figure]"]]:
    """(name, file, drawing function) of each figure."""
    for name, kind in kinds.items():
        if not kind.each_run:
            yield name, name, partial(kind.draw, runs, query) if kind.of_query else partial(kind.draw, runs)
            continue
        for run in runs:
            yield name, name if len(runs) == 1 else f"{name}-{run.name}", partial(kind.draw, run, query)
