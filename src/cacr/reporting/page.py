"""The report of one or several runs: one HTML file that opens offline."""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import cacr
from cacr.errors import UserError
from cacr.evaluation.guest import is_guest, open_run_or_guest
from cacr.files import require_writable, write_atomically
from cacr.reading.files import read_text
from cacr.reporting.facts import run_facts
from cacr.reporting.gallery import build_gallery
from cacr.reporting.packing import script_json
from cacr.reporting.relations import Stage, silent
from cacr.reporting.series import charts_for
from cacr.reporting.shown import MOST_POINTS
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.shell import shell_words

_STYLES = ("page.css", "charts.css", "map.css")
_SCRIPTS = ("dom", "unpack", "tables", "results", "charts", "pictures", "points", "map", "gallery", "main")
_GALLERY_OPENS, _GALLERY_ENDS = '<script type="application/json" id="gallery">', "</script>"
_LARGEST_PAGE = 200 * 2**20


def write_report(
    runs: Sequence[Path],
    *,
    out: Path | None = None,
    data: str | None = None,
    images: str | None = None,
    labels: Path | None = None,
    data_root: Path | None = None,
    download: bool = False,
    points: int = MOST_POINTS,
    stage: Stage = silent,
) -> tuple[Path, str]:
    """Write the report of some runs, with map and pictures.

    Args:
        runs: Run folders, or other encoders; several are compared.
        out: The file; default for a single run: ``report.html`` in its folder.
        data: Data whose images the map shows; default: the training data of the first run. If it no longer exists, the
            report is written without images.
        images: A list of the images to use, or ``except:FILE``.
        labels: A CSV file with labels of all or some images; default: the labels of the data itself.
        data_root: Folder of named data sets.
        download: Allow downloads of data sets.
        points: Number of images on the map, over all runs.
        stage: Shows progress.

    Returns:
        The file, and why it has no images (empty if it has some).

    Raises:
        UserError: a run folder or the data does not exist, or the file cannot be written.
    """
    target = _target(runs, out)
    opened = [open_run_or_guest(path, download=download) for path in runs]
    facts = [run_facts(run) for run in opened]
    missing, gallery = "", None
    try:
        gallery = build_gallery(
            opened,
            data=data,
            images=images,
            labels=labels,
            data_root=data_root,
            download=download,
            points=points,
            stage=stage,
        )
    except UserError as error:
        if data is not None or images is not None or labels is not None:
            raise
        missing = f"The report has no images: {error}"
    write_atomically(target, _html(facts, gallery, missing).encode())
    return target, missing


def refresh_report(run: Path) -> Path:
    """Write the report of a run again, with the same images if the encoder has not changed."""
    target = RunFolder(run).report
    opened = Run.open(run)
    facts = run_facts(opened)
    gallery = _old_gallery(target, opened.digest)
    missing = (
        "" if gallery else f"The report has no images yet: {shell_words('cacr', 'report', run)} adds them."
    )
    write_atomically(target, _html([facts], gallery, missing).encode())
    return target


def _target(runs: Sequence[Path], out: Path | None) -> Path:
    """The file of the report; wrong names are refused before anything is computed."""
    if not runs:
        raise UserError("a report needs at least one run folder")
    if out is None:
        if len(runs) > 1:
            raise UserError("a report of several runs needs a file name: add --out FILE.html")
        if is_guest(runs[0]):
            raise UserError(
                f"{runs[0]} is not a run folder, so the report needs a file name: add --out FILE.html"
            )
        return RunFolder(runs[0]).report
    if out.is_dir():
        raise UserError(f"{out} is a folder: give a file, such as {out / 'report.html'}")
    if out.exists() and not _is_page(out):
        raise UserError(f"{out} exists and is not a report: remove it, or choose another --out")
    require_writable(out.parent)
    out.parent.mkdir(parents=True, exist_ok=True)
    return out


def _is_page(path: Path) -> bool:
    """Whether a file is a report of cacr, which may be replaced."""
    return _stored_gallery(path) is not None


def _stored_gallery(page: Path) -> str | None:
    """The text of the images in a report; None if the file is not a report."""
    try:
        _, opened, rest = read_text(page, _LARGEST_PAGE).partition(_GALLERY_OPENS)
    except UserError:
        return None
    text, ended, _ = rest.partition(_GALLERY_ENDS)
    return text if opened and ended else None


def _html(facts: Sequence[dict[str, Any]], gallery: dict[str, Any] | None, missing: str) -> str:
    title = facts[0]["title"] if len(facts) == 1 else f"{len(facts)} runs compared"
    page = {
        "title": title,
        "runs": list(facts),
        "charts": charts_for([run["series"] for run in facts]),
        "missing": missing,
        "version": cacr.__version__,
    }
    return Template(_web("page.html")).substitute(
        title=escape(title),
        style="\n".join(_web(name) for name in _STYLES),
        page=script_json(page),
        gallery=script_json(gallery),
        script="\n".join(_web(f"{name}.js") for name in _SCRIPTS),
    )


def _web(name: str) -> str:
    return (files("cacr.reporting") / "web" / name).read_text(encoding="utf-8")


def _old_gallery(page: Path, digest: str) -> dict[str, Any] | None:
    """The images of an earlier report, if they were made with the same encoder."""
    stored = _stored_gallery(page)
    try:
        gallery = json.loads(stored) if stored else None
    except (ValueError, RecursionError):
        return None
    known = isinstance(gallery, dict) and gallery.get("digests") == [digest]
    return gallery if known else None
