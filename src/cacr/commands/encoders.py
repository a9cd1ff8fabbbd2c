"""Commands that use an encoder."""

from pathlib import Path
from typing import Annotated

import typer

from cacr.commands.options import DataRoot, Download, SetOption, evaluate_setting, given, show
from cacr.errors import UserError


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder, or a .safetensors file of an encoder.")],
    data: Annotated[str, typer.Option(help="Labelled data that classifiers learn from.")],
    test_data: Annotated[str | None, evaluate_setting("test_data")] = None,
    protocol: Annotated[
        str, typer.Option(help="What to measure, separated by commas; see `cacr list`.")
    ] = "knn,linear",
    data_root: DataRoot = None,
    download: Download = False,
    seed: Annotated[str | None, evaluate_setting("seed")] = None,
    assignments: SetOption = None,
) -> None:
    """Measure how good an encoder is: nearest neighbours, linear probes.

    cacr evaluate runs/c10 --data cifar10 --data-root ~/data --protocol knn,linear --set k=20
    """
    from cacr.api import evaluate_with
    from cacr.evaluation import results_table

    flags = {"data": data, "test_data": test_data, "data_root": data_root, "download": download, "seed": seed}
    values = given(assignments, **flags, protocols=protocol)
    show(results_table(evaluate_with(run, values)))


def embed(
    run: Annotated[Path, typer.Argument(help="Run folder, or a .safetensors file of an encoder.")],
    data: Annotated[str, typer.Argument(help="A folder of images, or a name; see `cacr list`.")],
    out: Annotated[Path, typer.Option(help="File to write: .npz or .parquet.")],
    part: Annotated[str, typer.Option(help="Images to encode: pretrain, train or test.")] = "pretrain",
    data_root: DataRoot = None,
    download: Download = False,
    max_unreadable: Annotated[
        float, typer.Option(min=0, max=1, help="Stop when a larger share of the images is unreadable.")
    ] = 0.1,
) -> None:
    """Write the features of all images of a data set, with their names and labels."""
    from cacr.api import embed as write

    if part not in ("pretrain", "train", "test"):
        raise UserError(f"--part takes pretrain, train or test, not {part!r}")
    values = given(None, data_root=data_root, download=download)
    done = write(run=run, data=data, out=out, part=part, max_unreadable=max_unreadable, **values)
    show(f"{done.images:,} images of the {done.part} part written to {out}")
    if done.unreadable:
        show(f"note: {done.unreadable:,} unreadable images are left out; `cacr doctor {data}` names them")
    for note in done.notes:
        show(f"note: {note}")
