"""Commands that train."""

from pathlib import Path
from typing import Annotated

import typer

from cacr.clock import process_began
from cacr.commands.interrupts import interruptible
from cacr.commands.options import (
    DataRoot,
    Download,
    SetOption,
    keywords,
    path,
    pretrain_setting,
    settings_of_run,
    show,
)
from cacr.errors import INTERRUPTED, UserError
from cacr.shell import resume_command, shell_words

STOPPED = 2
"""Exit code after ``--on-collapse stop`` ended a run: the user can fix the settings."""


def demo(
    out: Annotated[
        Path, typer.Option(parser=path, metavar="PATH", help="Run folder; an existing demo is continued.")
    ] = Path("runs/demo"),
) -> None:
    """Try cacr in a few minutes: pretrain on handwritten digits, compare with two baselines, write a report."""
    from cacr.commands.demo import run_demo

    with interruptible(out, shell_words("cacr", "demo", "--out", out)):
        _finish(run_demo(out))


def pretrain(
    context: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(help="A folder of images, or the name of a data set; see `cacr list sources`."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="Run folder, new or empty; with --resume, the folder of the run.",
        ),
    ] = None,
    method: Annotated[str | None, pretrain_setting("method")] = None,
    recipe: Annotated[str | None, pretrain_setting("recipe")] = None,
    encoder: Annotated[str | None, pretrain_setting("encoder")] = None,
    width: Annotated[str | None, pretrain_setting("width")] = None,
    init: Annotated[str | None, pretrain_setting("init")] = None,
    text_encoder: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="With captions: clip (trained from scratch), or a local Hugging Face folder (default: clip).",
        ),
    ] = None,
    preset: Annotated[str | None, pretrain_setting("preset")] = None,
    views: Annotated[str | None, pretrain_setting("views")] = None,
    batch_size: Annotated[str | None, pretrain_setting("batch_size")] = None,
    epochs: Annotated[str | None, pretrain_setting("epochs")] = None,
    time: Annotated[str | None, pretrain_setting("time")] = None,
    lr: Annotated[str | None, pretrain_setting("lr")] = None,
    schedule: Annotated[str | None, pretrain_setting("schedule")] = None,
    precision: Annotated[str | None, pretrain_setting("precision")] = None,
    seed: Annotated[str | None, pretrain_setting("seed")] = None,
    devices: Annotated[str | None, pretrain_setting("devices")] = None,
    nodes: Annotated[str | None, pretrain_setting("nodes")] = None,
    images: Annotated[str | None, pretrain_setting("images")] = None,
    labels: Annotated[str | None, pretrain_setting("labels")] = None,
    imbalance: Annotated[str | None, pretrain_setting("imbalance")] = None,
    on_collapse: Annotated[str | None, pretrain_setting("on_collapse")] = None,
    data_root: DataRoot = None,
    download: Download = False,
    assignments: SetOption = None,
    config: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="PATH", help="YAML file of settings; flags override it."),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="Copy the settings of another run, including its number of steps; flags override them.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print settings, sizes, memory and steps, without training.")
    ] = False,
) -> None:
    """Pretrain an encoder on images without labels, and check its health on held-out images during training.

    cacr pretrain photos/ --out runs/photos --time 30m

    cacr pretrain photos/ --out runs/photos1 --like runs/photos --seed 1

    cacr pretrain cifar10 --data-root ~/data --out runs/c10 --views 5 --epochs 200 --set t_neg=0.9

    cacr pretrain pairs:photos/train.jsonl --method clip --out runs/clip

    cacr pretrain --out runs/c10 --resume

    cacr pretrain --recipe imagenet-moco-v2-cacr-k4 --devices 8 --dry-run
    """
    values = settings_of_run(context, assignments, config)
    if dry_run:
        from cacr.training.dry_run import dry_run as describe_run

        show("\n".join(describe_run(values, like=like, began=process_began())))
        return
    if out is None:
        raise UserError("--out is missing: give the folder of the run (only --dry-run works without)")
    from cacr.api import pretrain as train
    from cacr.diagnostics.selection import describe_best
    from cacr.reporting.next_step import next_lines
    from cacr.runs.folder import RunFolder
    from cacr.runs.run import Run
    from cacr.runs.verdict import NO_VERDICT

    with interruptible(out, resume_command(out)):
        given = keywords(values, "out", "resume", "like", "began")
        outcome = train(out=out, resume=resume, like=like, began=process_began(), **given)
    if outcome.status == "finished":
        show(f"encoder: {out / 'encoder.safetensors'}\nreport: {out / 'report.html'}")
        if best := describe_best(RunFolder(out)):
            show(best)
        run = Run.open(out)
        if run.verdict is None:
            show(NO_VERDICT)
        for line in next_lines(run):
            show(line)
    _finish(outcome.status)


def _finish(status: str) -> None:
    codes = {"interrupted": INTERRUPTED, "stopped": STOPPED}
    if status in codes:
        raise typer.Exit(codes[status])
