"""``cacr reproduce``: the paper's tables and figures."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from cacr.commands.options import Download, path, show
from cacr.errors import INTERRUPTED, UserError


def reproduce(
    item: Annotated[
        str, typer.Argument(help="Table or figure: table2, tableA4, figure3, ...", show_default=False)
    ] = "",
    scale: Annotated[
        Literal["smoke", "mini", "paper"],
        typer.Option(
            help="smoke: a test on digits, takes seconds; mini: the same comparison on two cores; paper: as "
            "published."
        ),
    ] = "mini",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Number of seeds, from 0.")] = 3,
    match: Annotated[
        Literal["views", "steps", "epochs"],
        typer.Option(help="What --scale mini keeps equal in all rows: views, steps or epochs."),
    ] = "views",
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Choose learning rate and temperature (or t-) of every row by trials on held-out training images.",
        ),
    ] = False,
    row: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only this row; can be repeated. The table shows all rows.", show_default=False
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Run only this column; can be repeated.", show_default=False),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            parser=path,
            metavar="PATH",
            help="Folder of the ledger: keep cells/ and choices/; runs/ can be deleted.",
        ),
    ] = Path("ledger"),
    data_root: Annotated[
        Path, typer.Option(parser=path, metavar="PATH", help="Folder of named data sets.")
    ] = Path("data"),
    download: Download = False,
    jobs: Annotated[
        int,
        typer.Option(min=1, max=256, help="Number of cells at the same time; they share the cores equally."),
    ] = 1,
    table_only: Annotated[
        bool, typer.Option("--table", help="Print the table of the finished cells; run nothing.")
    ] = False,
    print_cells: Annotated[
        bool,
        typer.Option(
            "--print-cells",
            help="Print one command per training with unfinished cells, for a cluster.",
        ),
    ] = False,
    cell: Annotated[
        str, typer.Option(help="Run only this cell, or several, separated by commas.", show_default=False)
    ] = "",
    list_items: Annotated[bool, typer.Option("--list", help="List the items, with their claims.")] = False,
) -> None:
    """Reproduce a table or figure of the paper, with error bars and a verdict on each of its claims.

    A finished cell is one small JSON file and is never run again: the same command continues where it stopped.

    cacr reproduce --list

    cacr reproduce table2 --scale mini --tune --seeds 6 --data-root ~/data --jobs 2

    cacr reproduce table2 --tune --seeds 2 --row "HN-CL" --column "CIFAR-10" --data-root ~/data

    cacr reproduce tableA4 --scale paper --print-cells > cells.sh
    """
    from cacr.ledger import (
        ITEMS,
        Ledger,
        Plan,
        by_training,
        orders_of,
        paper_order,
        reproduced,
        work_on_plan,
        work_through,
    )

    if list_items or not item:
        for name in sorted(ITEMS, key=paper_order):
            mini = "" if not ITEMS[name].no_mini else " (not at the scale mini)"
            show(f"{name:<17} {ITEMS[name].title}{mini}")
            for claim in ITEMS[name].claims:
                show(f"{'':<17} claim: {claim.text}")
        return
    plan = Plan.of(item, scale=scale, seeds=seeds, match=match, tune=tune, rows=row, columns=column)
    ledger = Ledger(out)
    orders = orders_of(plan, out, data_root, download=download, jobs=jobs, tell=show)
    if cell or print_cells:
        plan.decide(ledger)
    if cell:
        chosen = [plan.cell(digest, ledger) for digest in cell.split(",")]
        if not work_through(chosen, orders):
            raise typer.Exit(INTERRUPTED)
        failures = [(each.digest, failure) for each in chosen if (failure := ledger.failure(each))]
        if failures:
            raise UserError("; ".join(f"cell {digest} failed: {failure.why}" for digest, failure in failures))
        return
    if print_cells:
        waiting = [each for each in plan.cells(ledger) if ledger.find(each) is None]
        for cells in by_training(waiting):
            show(shlex.join(["cacr", *orders.command(cells)[3:]]))
        if undecided := plan.sheet(ledger)[0].undecided(plan.rows, plan.columns):
            show(
                f"# {len(undecided)} places wait for trials: when these commands are done, --print-cells lists the rest"
            )
        return
    found = reproduced(plan, ledger, data_root) if table_only else work_on_plan(plan, orders)
    if not found.finished:
        raise typer.Exit(INTERRUPTED)
    show(found.text)
    for file in found.figures:
        show(f"figure: {file}")
    for why in found.undrawn:
        show(f"not drawn: {why}")
