"""The command line: ``cacr COMMAND``. The commands themselves are in :mod:`cacr.commands`."""

import sys
from typing import Annotated

import typer

from cacr.commands import encoders, showing, training
from cacr.errors import UserError

app = typer.Typer(
    help="Self-supervised image representations with contrastive attraction and repulsion.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# In the order in which `cacr --help` lists them.
app.command()(training.demo)
app.command()(training.pretrain)
app.command()(encoders.evaluate)
app.command()(encoders.embed)
app.command()(encoders.search)
app.command()(encoders.export)
app.command()(showing.compare)
app.command()(showing.report)
app.command()(showing.figures)
app.command()(showing.views)
app.command(name="list")(showing.list_all)
app.command()(showing.doctor)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(showing.bench)


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
