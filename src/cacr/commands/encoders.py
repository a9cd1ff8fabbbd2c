"""Commands that use an encoder."""

from pathlib import Path
from typing import Annotated

import typer

from cacr.commands.options import (
    Cache,
    DataRoot,
    Download,
    ImagesOption,
    LabelsOption,
    SetOption,
    evaluate_setting,
    given,
    keywords,
    path,
    show,
)
from cacr.errors import UserError
from cacr.shell import shell_words

EncoderArgument = Annotated[
    Path,
    typer.Argument(
        parser=path,
        metavar="ENCODER",
        help="A run folder, an exported file or folder, timm:NAME, timm:NAME@FILE, or a checkpoint of other software.",
    ),
]
PartOption = Annotated[str, typer.Option(help="Which part of the data: pretrain, train or test.")]
MaxUnreadable = Annotated[
    float, typer.Option(min=0, max=1, help="Stop if more than this share of the images is unreadable.")
]
ReaderComponents = Annotated[
    int | None, typer.Option(min=1, help="Number of principal components of a newly fitted reader.")
]


def check_part(part: str) -> None:
    """Refuse a part that does not exist."""
    if part not in ("pretrain", "train", "test"):
        raise UserError(f"--part takes pretrain, train or test, not {part!r}")


def left_out(unreadable: int, data: str) -> str:
    """Say how many images are left out, and which command names them."""
    command = shell_words("cacr", "doctor", data)
    return f"note: images left out, because they cannot be read: {unreadable:,} (`{command}` names them)"


FAILED_SETS = 1
"""Exit code when some data sets of a suite could not be measured."""


def evaluate(
    run: EncoderArgument,
    data: Annotated[
        str,
        typer.Option(
            help="Labelled data to train classifiers on; suite:PATH for every data set in a folder; coco:PATH or "
            "voc:PATH for detection."
        ),
    ],
    test_data: Annotated[str | None, evaluate_setting("test_data")] = None,
    protocol: Annotated[
        str, typer.Option(help="What to measure, separated by commas; see `cacr list protocols`.")
    ] = "knn,linear",
    against: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="A second encoder to compare with: mean scores and number of wins.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Try fewer settings in protocols that search for the best ones.")
    ] = False,
    labels: Annotated[Path | None, evaluate_setting("labels")] = None,
    images: Annotated[str | None, evaluate_setting("images")] = None,
    data_root: DataRoot = None,
    download: Download = False,
    seed: Annotated[str | None, evaluate_setting("seed")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be measured and trained, then stop.")
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Measure how good an encoder is: nearest neighbours, linear probes, few labels, fine-tuning, detection.

    cacr evaluate runs/c10 --data cifar10 --data-root ~/data --protocol knn,linear --set k=20

    cacr evaluate runs/c10 --against runs/other --protocol fewshot --data suite:sets/

    cacr evaluate runs/photos --protocol detection --data coco:street/
    """
    from cacr.api import evaluate as measure
    from cacr.api import evaluate_suite
    from cacr.distributed import is_first_process
    from cacr.evaluation import is_suite
    from cacr.evaluation.settings import quick_options
    from cacr.reporting.headline import headline_of
    from cacr.reporting.next_step import next_after
    from cacr.reporting.results import results_table
    from cacr.reporting.suite import suite_table

    flags: dict[str, object] = {"data": data, "test_data": test_data, "labels": labels, "images": images}
    flags |= {"data_root": data_root, "download": download, "seed": seed}
    values = keywords(given(assignments, **flags, protocol=protocol), "run", "quick", "against", "tell")
    if dry_run:
        from cacr.evaluation.dry_run import describe_evaluation

        shortened = quick_options(values["protocol"]) if quick else {}
        show("\n".join(describe_evaluation(run, {**shortened, **values})))
        return
    if against is None and not is_suite(data):
        results = measure(run=run, quick=quick, **values)
        failures = False
        table = results_table(results)
        meaning = headline_of(results)
    else:
        report = evaluate_suite(run=run, against=against, quick=quick, tell=show, **values)
        failures = bool(report.failures)
        table = suite_table(report)
        meaning = None
    if is_first_process():
        show(table)
        if meaning is not None:
            show(f"{meaning.title} {meaning.text}")
        for line in next_after(path(run)):
            show(line)
        if quick and not quick_options(values["protocol"]):
            show("note: --quick has no effect, because none of these protocols searches for settings")
    if failures:
        raise typer.Exit(FAILED_SETS)


def embed(
    run: EncoderArgument,
    data: Annotated[
        str, typer.Argument(help="A folder of images, or the name of a data set; see `cacr list sources`.")
    ],
    out: Annotated[
        Path, typer.Option(parser=path, metavar="PATH", help="File to write: .npz, .parquet or .csv.")
    ],
    reader: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="How features are transformed: auto (the run's own reader), centred, half_white or white "
            "(default: raw features).",
        ),
    ] = None,
    reader_components: ReaderComponents = None,
    labels: LabelsOption = None,
    images: ImagesOption = None,
    part: PartOption = "pretrain",
    data_root: DataRoot = None,
    download: Download = False,
    max_unreadable: MaxUnreadable = 0.1,
) -> None:
    """Write the features of all images of a data set, with their names and labels.

    Tables (.parquet, .csv) also hold a 2-D map and the neighbours of each image, in the format of embedding-atlas.
    """
    from cacr.api import embed as write
    from cacr.features.written import NEAR, X, Y

    check_part(part)
    values = given(
        None,
        data_root=data_root,
        download=download,
        reader=reader,
        reader_components=reader_components,
        labels=labels,
        images=images,
    )
    done = write(run=run, data=data, out=out, part=part, max_unreadable=max_unreadable, **values)
    show(f"{done.images:,} images of the {done.part} part written to {out}")
    if done.unreadable:
        show(left_out(done.unreadable, data))
    for note in done.notes:
        show(f"note: {note}")
    if out.suffix == ".parquet":
        columns = "--x", X, "--y", Y, "--neighbors", NEAR
        show(
            f"look at it with: {shell_words('embedding-atlas', out, *columns)} (pip install embedding-atlas)"
        )


def search(
    run: EncoderArgument,
    image: Annotated[
        str,
        typer.Argument(help="An image file, the name or number of an image in the data, or words in quotes."),
    ],
    data: Annotated[
        str,
        typer.Option(help="Images to search: a folder, or the name of a data set; see `cacr list sources`."),
    ],
    k: Annotated[int, typer.Option("--k", min=1, help="Number of images to find.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="PATH", help="Also draw the images found: .png, .jpg or .webp."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="Stored features of the data (`cacr embed RUN DATA --out F.npz`), for a fast search.",
        ),
    ] = None,
    cache: Cache = True,
    reader: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="How features are transformed: raw, centred, half_white or white (default: the run's own reader).",
        ),
    ] = None,
    reader_components: ReaderComponents = None,
    labels: LabelsOption = None,
    images: ImagesOption = None,
    part: PartOption = "pretrain",
    data_root: DataRoot = None,
    download: Download = False,
    max_unreadable: MaxUnreadable = 0.1,
) -> None:
    """Find the images that are nearest to one image, or to words.

    cacr search runs/photos holiday.jpg --data photos/ --out found.png

    cacr search runs/clip "two dogs in the snow" --data photos/ --out found.png
    """
    from rich.table import Table
    from rich.text import Text

    from cacr.api import search as find
    from cacr.files import printable

    check_part(part)
    values = given(
        None,
        data_root=data_root,
        download=download,
        features=features,
        reader=reader,
        reader_components=reader_components,
        labels=labels,
        images=images,
    )
    found = find(
        run=run,
        image=image if image.isdecimal() else path(image),
        data=data,
        out=out,
        k=k,
        cache=cache,
        part=part,
        max_unreadable=max_unreadable,
        **values,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("cosine", justify="right")
    labelled = any(neighbour.label is not None for neighbour in found.neighbours)
    for heading in ("class", "image") if labelled else ("image",):
        table.add_column(heading, overflow="fold")
    for neighbour in found.neighbours:
        names = (neighbour.label or "", neighbour.name) if labelled else (neighbour.name,)
        table.add_row(f"{neighbour.similarity:.4f}", *(Text(printable(name)) for name in names))
    show(table)
    show(f"nearest of {found.searched:,} images" + (f"; picture: {out}" if out else ""))
    if found.unreadable:
        show(left_out(found.unreadable, data))
    for note in found.notes:
        show(f"note: {note}")


def export(
    run: EncoderArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="Format: hub, timm, torch, onnx, torchvision or detectron2; see `cacr list formats`.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            parser=path, metavar="PATH", help="File to write: .safetensors, .onnx or .pth; for hub a folder."
        ),
    ],
    download: Download = False,
) -> None:
    """Export the encoder for other software, with a model card.

    cacr loads the file again, in the way of that software, and checks that it gives the same features.

    cacr export runs/photos --to timm --out photos.safetensors

    cacr export runs/photos --to hub --out photos-encoder
    """
    from cacr.api import export as write

    done = write(run=run, to=to, out=out, download=download)
    show(f"encoder: {done.file}\ndescription: {done.info}\nmodel card: {done.card}")
    if done.reader is not None:
        show(f"reader, for search and nearest neighbours: {done.reader}")
    show(f"largest difference between features: {done.difference:.1e} of the largest feature")
    for note in done.notes:
        show(f"note: {note}")
    if not done.finished:
        show("note: the run is not finished; this is the encoder of its last checkpoint")
    show(f"\n{done.code}")
