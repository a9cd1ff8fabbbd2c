"""Commands that show something: compare, report, figures, views, list, doctor, bench."""

from pathlib import Path
from typing import Annotated

import typer

from cacr.commands.options import (
    DataRoot,
    Download,
    ImagesOption,
    LabelsOption,
    SetOption,
    given,
    path,
    pretrain_setting,
    settings_of_run,
    show,
)
from cacr.files import printable


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(parser=path, help="Run folders or other encoders; all are compared with the first."),
    ],
    out: Annotated[
        Path | None, typer.Option(parser=path, metavar="PATH", help="Also write the comparison: .json.")
    ] = None,
) -> None:
    """Compare runs over seeds: mean, spread, a paired test, the training budget.

    Runs that differ only in the seed are averaged. Evaluate all runs with the same protocols first.

    cacr compare runs/infonce-0 runs/infonce-1 runs/infonce-2 runs/cacr-0 runs/cacr-1 runs/cacr-2
    """
    from cacr.api import compare as compare_them
    from cacr.reporting import comparison_tables

    comparison = compare_them(runs=runs, out=out)
    for table in comparison_tables(comparison):
        show(table)
    for note in comparison.notes:
        show(f"note: {note}")


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(parser=path, help="A run folder or another encoder, or several to compare."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="HTML file (default for a single run: report.html in its folder).",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data whose images the map shows (default: the data of the first run).")
    ] = None,
    images: ImagesOption = None,
    labels: LabelsOption = None,
    points: Annotated[
        int,
        typer.Option(
            min=1,
            max=50_000,
            help="Number of images on the map, over all runs; a random sample if there are more.",
        ),
    ] = 50_000,
    data_root: DataRoot = None,
    download: Download = False,
) -> None:
    """Write the report of one or several runs: verdict, curves, results, weights, a map of the embeddings.

    cacr report runs/c10

    cacr report runs/a runs/b --out compare.html --data cifar10 --data-root ~/data --points 10000
    """
    from cacr.api import report as write

    values = given(None, data_root=data_root, download=download, images=images, labels=labels)
    page, missing = write(runs=runs, out=out, data=data, points=points, **values)
    show(f"report: {page}")
    if missing:
        show(f"note: {missing}")
    if len(runs) == 1:
        from cacr.reporting.next_step import next_after

        for line in next_after(runs[0]):
            show(line)


def figures(
    runs: Annotated[list[Path], typer.Argument(parser=path, help="Run folders.")],
    out: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="Folder for the files (default: figures/ in the run, or here for several).",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Names, separated by commas: entropy, weights, tsne, ...; see `cacr list figures`."
        ),
    ] = None,
    query: Annotated[
        int, typer.Option(min=0, help="Which stored image the figures weights and tsne show: 0, 1, ...")
    ] = 0,
) -> None:
    """Draw the paper's figures for any runs, as PNG and SVG.

    Entropy and accuracy over epochs; the weights of the positives and negatives of a query; its neighbourhood by t-SNE.
    For runs that differ in K, batch size, t+ or t-: accuracy against that setting.

    cacr figures runs/c10

    cacr figures runs/cacr runs/info_nce --only entropy,accuracy-epoch --out compared
    """
    from cacr.api import figures as draw

    names = [name.strip() for name in only.split(",")] if only else []
    for drawn in draw(runs=runs, out=out, only=names, query=query):
        files = ", ".join(printable(str(path)) for path in drawn.files)
        show(f"{drawn.name}: {files}" if files else f"{drawn.name}: not drawn, {drawn.reason}")


def views(
    context: typer.Context,
    out: Annotated[
        Path,
        typer.Option(
            parser=path, metavar="PATH", help="Picture to write: .png, .jpg or .webp; it must not exist."
        ),
    ],
    data: Annotated[
        str | None,
        typer.Argument(help="A folder of images, or the name of a data set; see `cacr list sources`."),
    ] = None,
    number: Annotated[int, typer.Option(min=1, help="Number of images to show.")] = 8,
    method: Annotated[str | None, pretrain_setting("method")] = None,
    recipe: Annotated[str | None, pretrain_setting("recipe")] = None,
    encoder: Annotated[str | None, pretrain_setting("encoder")] = None,
    preset: Annotated[str | None, pretrain_setting("preset")] = None,
    views: Annotated[str | None, pretrain_setting("views")] = None,
    batch_size: Annotated[str | None, pretrain_setting("batch_size")] = None,
    seed: Annotated[str | None, pretrain_setting("seed")] = None,
    imbalance: Annotated[str | None, pretrain_setting("imbalance")] = None,
    images: Annotated[str | None, pretrain_setting("images")] = None,
    data_root: DataRoot = None,
    download: Download = False,
    assignments: SetOption = None,
    config: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="PATH", help="YAML file of settings, or the config.yaml of a run."),
    ] = None,
) -> None:
    """Draw the views of the first images of a run: one row per image, one column per view.

    Takes the settings of `cacr pretrain`, chooses the others in the same way, and draws images of the first batch.

    cacr views photos/ --out views.png

    cacr views cells/ --out views.png --set upright=false --set image_size=64

    cacr views --config runs/photos/config.yaml --out views.png
    """
    from cacr.commands.draw_views import draw_sheet

    drawn = draw_sheet(settings_of_run(context, assignments, config), out, images=number)
    show(f"views: {out} ({drawn})")


def list_all(
    kind: Annotated[
        str | None,
        typer.Argument(help="What to list, for example methods or settings (default: everything)."),
    ] = None,
) -> None:
    """List everything that has a name: methods, recipes, settings, encoders, data sources, presets, protocols and more.

    cacr list protocols
    """
    from cacr.commands.listing import listing

    for table in listing(kind):
        show(table)
        show("")


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(help="A run folder, another encoder, or data to check (default: this machine only)."),
    ] = None,
    images: ImagesOption = None,
    data_root: DataRoot = None,
) -> None:
    """Check this machine, a run or data for problems, or describe an encoder of other software."""
    from cacr.commands.doctor import examine

    for part in examine(target, root=Path(data_root or "data"), images=images):
        show(part)


def bench(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Benchmark to run (default: list all).")] = None,
) -> None:
    """Run a benchmark, or list them all. A benchmark compares cacr with other software or with a theoretical limit.

    Further arguments go to the benchmark; `cacr bench NAME -- --help` shows them.

    cacr bench end_to_end cifar10 --data-root ~/data
    """
    from cacr.commands.bench import run_benchmark

    if name is not None:
        raise typer.Exit(run_benchmark(name, context.args))
    from cacr.commands.listing import benchmarks_table

    show(benchmarks_table())
    show("run one with: cacr bench NAME [ARGUMENTS]; its arguments: cacr bench NAME -- --help")
