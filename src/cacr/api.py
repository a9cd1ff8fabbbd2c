"""Python functions with the names of the commands: ``cacr.pretrain`` does what ``cacr pretrain`` does."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cacr.distributed import is_first_process
from cacr.errors import UserError
from cacr.evaluation import Comparison, Result, SuiteReport, compare_runs, evaluate_run, write_comparison
from cacr.evaluation import evaluate_suite as measure_suite
from cacr.evaluation.probing import observe
from cacr.evaluation.settings import quick_options
from cacr.exporting import Exported, export_run
from cacr.features import Found, WrittenFeatures, embed_source, search_source
from cacr.features.run_reader import save_readers
from cacr.files import require_new_file
from cacr.reporting import (
    MOST_PICTURES,
    MOST_POINTS,
    PICTURES,
    refresh_report,
    write_neighbours,
    write_report,
)
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.runs.verdict import in_words
from cacr.terminal import CleanConsole, bar, working
from cacr.training.pretrain import Outcome
from cacr.training.pretrain import pretrain as train_encoder

if TYPE_CHECKING:
    from cacr.ledger import Reproduced
    from cacr.ledger.scales import Match, Scale
    from cacr.reporting.figures import Drawn

AnyPath = str | PathLike[str]


def pretrain(
    *,
    out: AnyPath,
    data: AnyPath | None = None,
    resume: bool = False,
    like: AnyPath | None = None,
    began: float | None = None,
    **settings: Any,
) -> Outcome:
    """Pretrain an encoder, check its health during training, and write its report.

    Args:
        out: the run folder, new or empty; with ``resume``, the folder of the run to continue.
        data: a folder of images, or the name of a data set.
        resume: continue the run in ``out``.
        like: a run whose settings the new run copies, including its number of steps, but not its data and its seed;
            settings that are given override them.
        began: start of the time that ``time`` counts, on the clock of ``time.monotonic``; default: now.
        settings: every other setting by its name in :class:`cacr.config.PretrainSettings` (``time="30m"``), and options
            of the objective (``t_neg``) and of the views (``grey``).
    """
    values = settings if data is None else {"data": str(data), **settings}
    other = None if like is None else Path(like)
    outcome = train_encoder(values, Path(out), resume=resume, observe=observe, like=other, began=began)
    if is_first_process():
        console, verdict = CleanConsole(), Run.open(Path(out)).verdict
        if outcome.status == "finished" and verdict:
            console.print(in_words(verdict))
        if outcome.status in ("finished", "stopped"):
            _save_readers(RunFolder(Path(out)), console)
            console.print("writing the report of the run ...")
            # As many images as may have a picture; `cacr report` can show more.
            write_report([Path(out)], points=MOST_PICTURES, stage=bar)
        else:
            refresh_report(Path(out))
    return outcome


def _save_readers(run: RunFolder, console: CleanConsole) -> None:
    """Fit the readers of a run's encoders; a run without readers is complete, and a note says why."""
    try:
        with bar("fitting the reader") as progress:
            save_readers(run, progress)
    except UserError as error:
        console.print(f"note: no reader was saved with the encoder ({error})")


def evaluate(
    *,
    run: AnyPath,
    data: AnyPath,
    protocol: str | Sequence[str] = ("knn", "linear"),
    quick: bool = False,
    **settings: Any,
) -> list[Result]:
    """Measure the encoder of a run; store the results in its folder and show them in its report.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: labelled images that classifiers are trained on.
        protocol: what to measure, as names or as one string with commas.
        quick: try fewer settings, in protocols that search for the best ones (``search="quick"``).
        settings: every other setting by its name in :class:`cacr.config.EvaluateSettings`, and those of the
            protocols (``k``, ``labels_per_class``).
    """
    values = _evaluate_values(data, protocol, quick, settings)
    with bar("evaluating") as progress:
        results = evaluate_run(Path(run), values, progress=progress)
    _report(run)
    return results


def evaluate_suite(
    *,
    run: AnyPath,
    data: AnyPath,
    against: AnyPath | None = None,
    protocol: str | Sequence[str] = ("knn", "linear"),
    quick: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    **settings: Any,
) -> SuiteReport:
    """Measure an encoder, and optionally a second one, on many data sets.

    A data set that fails is listed in ``failures`` of the report; finished measurements are not repeated.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: ``suite:PATH`` for the data sets in a folder, or one data set.
        against: a second run, measured in the same way.
        protocol: what to measure, as names or as one string with commas.
        quick: try fewer settings, in protocols that search for the best ones (``search="quick"``).
        tell: is called with one line per data set.
        settings: as for :func:`evaluate`.
    """
    values, rival = (
        _evaluate_values(data, protocol, quick, settings),
        None if against is None else Path(against),
    )
    with bar("evaluating") as progress:
        report = measure_suite(Path(run), values, against=rival, progress=progress, tell=tell)
    for each in (run, against):
        if each is not None:
            _report(each)
    return report


def _evaluate_values(
    data: AnyPath, protocol: str | Sequence[str], quick: bool, settings: Mapping[str, Any]
) -> dict[str, Any]:
    shortened = quick_options(protocol) if quick else {}
    return {**shortened, "data": str(data), "protocol": protocol, **settings}


def _report(run: AnyPath) -> None:
    """Write the report of a run again, if ``run`` is a run folder."""
    if is_first_process() and RunFolder(Path(run)).holds_run:
        refresh_report(Path(run))


def report(
    *,
    runs: AnyPath | Sequence[AnyPath],
    out: AnyPath | None = None,
    data: AnyPath | None = None,
    images: str | None = None,
    labels: AnyPath | None = None,
    data_root: AnyPath | None = None,
    download: bool = False,
    points: int = MOST_POINTS,
) -> tuple[Path, str]:
    """Write the report of one run, or of several to compare, with the map of their embeddings.

    Args:
        runs: a run folder, or several.
        out: the file; default for a single run: ``report.html`` in its folder.
        data: data whose images the map shows; default: the training data of the first run.
        images: a list of the images to use, or ``except:FILE``.
        labels: a ``.csv`` file with the columns ``path`` and ``label``; default: the labels of the data itself.
        data_root: folder of named data sets; default: that of the first run.
        download: allow downloads of data sets.
        points: number of images on the map, over all runs; at most 50,000.

    Returns:
        The file, and why it has no images (empty if it has some).
    """
    paths = [runs] if isinstance(runs, str | PathLike) else runs
    return write_report(
        [Path(path) for path in paths],
        out=None if out is None else Path(out),
        data=None if data is None else str(data),
        images=images,
        labels=None if labels is None else Path(labels),
        data_root=None if data_root is None else Path(data_root),
        download=download,
        points=points,
        stage=bar,
    )


def embed(*, run: AnyPath, data: AnyPath, out: AnyPath, **settings: Any) -> WrittenFeatures:
    """Write the features of all images of a part of ``data`` to a ``.npz``, ``.parquet`` or ``.csv`` file.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        data: a folder of images, or the name of a data set.
        out: the file, which must not exist yet.
        settings: ``reader``, ``reader_components``, ``images``, ``labels``, ``part``, ``data_root``, ``download`` and
            ``max_unreadable`` of :func:`cacr.features.embed_source`.

    Returns:
        The number of images written, and notes on images left out.
    """
    with bar("encoding") as progress:
        return embed_source(Path(run), str(data), Path(out), progress=progress, **settings)


def search(
    *, run: AnyPath, image: AnyPath, data: AnyPath, out: AnyPath | None = None, **settings: Any
) -> Found:
    """Find the images of ``data`` that are nearest to one image, or to words.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        image: the path of an image, the name or number of one in the data, or words (for an image-text encoder).
        data: a folder of images, or the name of a data set.
        out: a picture of the images found, which must not exist yet.
        settings: ``k``, ``features``, ``cache``, ``images``, ``labels``, ``reader``, ``reader_components``, ``part``,
            ``data_root``, ``download`` and ``max_unreadable`` of :func:`cacr.features.search_source`.
    """
    if out is not None:
        require_new_file(Path(out), PICTURES)
    with bar("encoding") as progress:
        found = search_source(Path(run), image, str(data), progress=progress, **settings)
    if out is not None:
        write_neighbours(Path(out), found)
    return found


def export(*, run: AnyPath, to: str, out: AnyPath, download: bool = False) -> Exported:
    """Export the encoder of a run for other software, check it against the original, and write a model card.

    Args:
        run: a run folder, or anything else that :func:`cacr.load_encoder` takes.
        to: ``hub``, ``timm``, ``torch``, ``onnx``, ``torchvision`` or ``detectron2``.
        out: the file, or for ``hub`` the folder, which must not exist yet. Next to a file, its description, its card
            and its reader (if there is one) are written: ``photos.json``, ``photos.md`` and
            ``photos.reader.safetensors`` for ``photos.safetensors``; ``photos.onnx.json`` etc. for ``photos.onnx``.
        download: allow the download of timm's pretrained weights for ``timm:NAME``.
    """
    with working("exporting, and comparing with the original"):
        return export_run(Path(run), to, Path(out), download=download)


def figures(
    *, runs: Sequence[AnyPath], out: AnyPath | None = None, only: Sequence[str] = (), query: int = 0
) -> "list[Drawn]":
    """Draw the paper's figures for runs, as PNG and SVG.

    Args:
        runs: run folders.
        out: folder for the files; default: ``figures`` in the run folder, or for several runs in the current folder.
        only: names of figures (``cacr list figures``); default: all that can be drawn.
        query: number of the stored image that is the query of ``weights`` and ``tsne``.

    Returns:
        For each figure, the files that were written, or why there are none.
    """
    from cacr.reporting.figures import draw_figures  # here, because the drawing library is slow to import

    with bar("drawing") as progress:
        folder = None if out is None else Path(out)
        return draw_figures(
            [Path(run) for run in runs], out=folder, only=only, query=query, progress=progress
        )


def compare(*, runs: Sequence[AnyPath], out: AnyPath | None = None) -> Comparison:
    """Compare runs; runs that differ only in the seed are averaged.

    Args:
        runs: run folders that have been evaluated; all are compared with the settings of the first.
        out: a ``.json`` file to write, which must not exist yet.
    """
    if out is not None:
        require_new_file(Path(out), (".json",))
    comparison = compare_runs([Path(run) for run in runs])
    if out is not None:
        write_comparison(Path(out), comparison)
    return comparison


def reproduce(
    *,
    item: str,
    scale: "Scale" = "mini",
    seeds: int = 3,
    match: "Match" = "views",
    tune: bool = False,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    out: AnyPath = "ledger",
    data_root: AnyPath = "data",
    download: bool = False,
    jobs: int = 1,
    tell: Callable[[str], None] = lambda line: None,
) -> "Reproduced":
    """Reproduce a table or figure of the paper; finished cells are not run again.

    Args:
        item: its name (``table2``, ``figureA3``); ``cacr reproduce --list`` lists them all.
        scale: ``smoke``, ``mini`` or ``paper``.
        seeds: number of seeds, from 0.
        match: what is equal in all rows of ``mini``.
        tune: choose learning rate and temperature of every row by trials on held-out training images.
        rows: names of the rows to run; all if empty. The table shows all rows.
        columns: names of the columns to run; all if empty.
        out: folder of the ledger.
        data_root: folder of named data sets.
        download: allow downloads of data sets.
        jobs: number of cells at the same time, each in its own process.
        tell: is called with one line per cell.
    """
    from cacr.ledger import (
        Plan,
        orders_of,
        work_on_plan,
    )  # here, because the drawing library is slow to import

    plan = Plan.of(item, scale=scale, seeds=seeds, match=match, tune=tune, rows=rows, columns=columns)
    orders = orders_of(plan, Path(out), Path(data_root), download=download, jobs=jobs, tell=tell)
    return work_on_plan(plan, orders)
