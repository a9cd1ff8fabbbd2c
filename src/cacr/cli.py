"""The commands. Each one reads its arguments, calls a function of the package and prints what it returns."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cacr.config import EvaluateSettings, PretrainSettings, Settings, parse_assignment, read_settings_file
from cacr.errors import UserError

app = typer.Typer(
    help="Self-supervised image representations with contrastive attraction and repulsion.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main() -> None:
    """Run the command line; what a user can mend is told without a traceback, with exit code 2."""
    try:
        app()
    except UserError as error:
        if "--debug" in sys.argv:
            raise
        from rich.console import Console

        Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(f"error: {error}")
        sys.exit(2)


@app.callback()
def _common(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """What all commands share; ``main`` looks for ``--debug`` itself."""


def setting(kind: type[Settings], name: str) -> Any:
    """The option of a setting: its help and default come from ``config.py``, and so do its checks."""
    field = kind.model_fields[name]
    default = "" if field.default is None or field.is_required() else f" (default: {field.default})"
    return typer.Option(
        "--" + name.replace("_", "-"),
        help=f"{field.description}{default}",
        show_default=False,
        metavar="VALUE",
    )


def pretrain_setting(name: str) -> Any:
    """An option of ``cacr pretrain``."""
    return setting(PretrainSettings, name)


def evaluate_setting(name: str) -> Any:
    """An option of ``cacr evaluate``."""
    return setting(EvaluateSettings, name)


SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting by its name; may be repeated."),
]
DataRoot = Annotated[str | None, pretrain_setting("data_root")]
Download = Annotated[bool, typer.Option("--download", help="Allow downloads of data sets and weights.")]


def _given(assignments: list[str] | None, **flags: Any) -> dict[str, Any]:
    """The settings that were given, from flags and ``--set``."""
    values = {name: value for name, value in flags.items() if value is not None and value is not False}
    return values | dict(parse_assignment(text) for text in assignments or [])


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Run folder; a demo that is there is continued.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Pretrain on handwritten digits, evaluate against two baselines, write a report: a few minutes."""
    from cacr.demo import run_demo

    with _interruptible():
        _finish(run_demo(out))


@app.command()
def pretrain(
    out: Annotated[Path, typer.Option(help="Run folder: absent or empty, or with --resume the run.")],
    data: Annotated[
        str | None, typer.Argument(help="A folder of images, or a name; see `cacr list`.")
    ] = None,
    encoder: Annotated[str | None, pretrain_setting("encoder")] = None,
    width: Annotated[str | None, pretrain_setting("width")] = None,
    init: Annotated[str | None, pretrain_setting("init")] = None,
    framework: Annotated[str | None, pretrain_setting("framework")] = None,
    objective: Annotated[str | None, pretrain_setting("objective")] = None,
    preset: Annotated[str | None, pretrain_setting("preset")] = None,
    views: Annotated[str | None, pretrain_setting("views")] = None,
    batch_size: Annotated[str | None, pretrain_setting("batch_size")] = None,
    epochs: Annotated[str | None, pretrain_setting("epochs")] = None,
    lr: Annotated[str | None, pretrain_setting("lr")] = None,
    schedule: Annotated[str | None, pretrain_setting("schedule")] = None,
    precision: Annotated[str | None, pretrain_setting("precision")] = None,
    seed: Annotated[str | None, pretrain_setting("seed")] = None,
    devices: Annotated[str | None, pretrain_setting("devices")] = None,
    nodes: Annotated[str | None, pretrain_setting("nodes")] = None,
    imbalance: Annotated[str | None, pretrain_setting("imbalance")] = None,
    data_root: DataRoot = None,
    download: Download = False,
    assignments: SetOption = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings; flags win over it.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
) -> None:
    """Pretrain an encoder on images without labels.

    cacr pretrain photos/ --out runs/photos

    cacr pretrain cifar10 --data-root ~/data --out runs/c10 --views 5 --epochs 200 --set t_neg=0.9

    cacr pretrain --out runs/c10 --resume
    """
    flags = dict(locals())
    for name in ("out", "assignments", "config", "resume"):
        del flags[name]
    values = (read_settings_file(config) if config else {}) | _given(assignments, **flags)
    from cacr.api import pretrain_with

    with _interruptible():
        outcome = pretrain_with(values, out, resume=resume)
    if outcome.status == "finished":
        _print(f"encoder: {out / 'encoder.safetensors'}\nreport: {out / 'report.html'}")
    _finish(outcome.status)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C outside of the training loop, which handles its own: say so, without a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        _print("interrupted: no step was lost, the same command (or --resume) goes on")
        raise typer.Exit(INTERRUPTED) from None


def _finish(status: str) -> None:
    if status == "interrupted":
        raise typer.Exit(INTERRUPTED)


@app.command()
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
    values = _given(assignments, **flags, protocols=protocol)
    _print(results_table(evaluate_with(run, values)))


@app.command()
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
    values = _given(None, data_root=data_root, download=download)
    done = write(run=run, data=data, out=out, part=part, max_unreadable=max_unreadable, **values)
    _print(f"{done.images:,} images of the {done.part} part written to {out}")
    if done.unreadable:
        _print(f"note: {done.unreadable:,} unreadable images are left out; `cacr doctor {data}` names them")
    for note in done.notes:
        _print(f"note: {note}")


@app.command()
def report(run: Annotated[Path, typer.Argument(help="Run folder.")]) -> None:
    """Write the page of a run anew: settings, curves, results."""
    from cacr.reporting import write_report

    _print(f"report: {write_report(run)}")


@app.command()
def views(
    data: Annotated[str, typer.Argument(help="A folder of images, or a name; see `cacr list`.")],
    out: Annotated[Path, typer.Option(help="PNG file to write.")],
    preset: Annotated[str | None, pretrain_setting("preset")] = None,
    count: Annotated[int, typer.Option("--views", min=1, help="Views of each image.")] = 5,
    images: Annotated[int, typer.Option(min=1, help="Images to show.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the choice of images and of the views.")] = 0,
    data_root: DataRoot = None,
    download: Download = False,
    assignments: SetOption = None,
) -> None:
    """Draw what the encoder will see: a row for each image, a column for each view.

    cacr views photos/ --preset moco-v2 --out views.png --set grey=0
    """
    from cacr.sheet import draw_sheet

    options = _given(assignments)
    source = _given(None, data_root=data_root, download=download)
    draw_sheet(data, out, preset=preset, views=count, images=images, seed=seed, options=options, **source)
    _print(f"views: {out}")


@app.command(name="list")
def list_all() -> None:
    """Everything that can be named: objectives, frameworks, encoders, sources, presets, protocols."""
    from cacr.listing import listing

    for table in listing():
        _print(table)
        _print("")


@app.command()
def doctor(
    target: Annotated[str | None, typer.Argument(help="A run folder or a data folder to examine.")] = None,
    data_root: DataRoot = None,
) -> None:
    """What this machine can do; what is wrong with a run or with data."""
    from cacr.doctor import examine

    for part in examine(target, root=Path(data_root or "data")):
        _print(part)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which benchmark; without it all of them run.")] = None,
) -> None:
    """Run a benchmark: it prints ratios against a peer or a limit. Further arguments go to the benchmark.

    cacr bench end_to_end cifar10 --data-root ~/data
    """
    from cacr.bench import run_all, run_benchmark

    raise typer.Exit(run_benchmark(name, context.args) if name else run_all())


def _print(thing: Any) -> None:
    from rich.console import Console

    Console(highlight=False, markup=False).print(thing)
