"""The command line: ``cacr COMMAND``. The commands themselves are in :mod:`cacr.commands`."""

import io
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cacr import __version__
from cacr.commands import encoders, reproducing, showing, sorting, training
from cacr.commands.plain import PlainCommand, PlainGroup
from cacr.distributed import first_to_say
from cacr.errors import StoppedError, UserError, refusal

REFUSED = 2
"""Exit code for errors that the user or the system can fix."""

FAULT = 1
"""Exit code for a bug in cacr."""

STOPPED = 130
"""Exit code after Ctrl-C, as in shells."""

app = typer.Typer(
    cls=PlainGroup,
    help="Train image encoders without labels, measure them, and use them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# In the order in which `cacr --help` lists them.
app.command(cls=PlainCommand)(training.demo)
app.command(cls=PlainCommand)(training.pretrain)
app.command(cls=PlainCommand)(encoders.evaluate)
app.command(cls=PlainCommand)(encoders.embed)
app.command(cls=PlainCommand)(encoders.search)
app.command(cls=PlainCommand)(sorting.select)
app.command(cls=PlainCommand)(sorting.predict)
app.command(cls=PlainCommand)(sorting.group)
app.command(cls=PlainCommand)(encoders.export)
app.command(cls=PlainCommand)(showing.compare)
app.command(cls=PlainCommand)(showing.report)
app.command(cls=PlainCommand)(showing.figures)
app.command(cls=PlainCommand)(showing.views)
app.command(cls=PlainCommand)(reproducing.reproduce)
app.command(name="list", cls=PlainCommand)(showing.list_all)
app.command(cls=PlainCommand)(showing.doctor)
app.command(cls=PlainCommand, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
    showing.bench
)


def main() -> None:
    """Run the command line.

    An error that the user can fix, or that the system reports (memory, files), is printed as one message; the exit code
    is 2. After Ctrl-C, a message says how to continue; the exit code is 130. Any other error is a bug in cacr, and the
    message says so; the exit code is 1. ``--debug``, anywhere in the arguments, shows the traceback.
    """
    # PyTorch reads this when it is loaded. Waiting threads sleep instead of spinning (the default): spinning threads
    # slow down the thread that they wait for when other programs run too, and are not faster when none does.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file name may hold bytes that the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = [text for text in sys.argv[1:] if text != "--debug"]
    try:
        app(args=arguments)
    except StoppedError as error:
        _end(str(error), STOPPED, error)
    except UserError as error:
        _end(f"error: {error}", REFUSED, error)
    except Exception as error:
        if refused := refusal(error):
            _end(f"error: {refused}", REFUSED, error)
        _end(_bug_report(error), FAULT, error)


def _end(message: str, code: int, error: Exception) -> NoReturn:
    """Print an error once, even if several processes meet it, and exit."""
    from cacr.terminal import CleanConsole

    if "--debug" in sys.argv:
        raise error
    if first_to_say(message):
        CleanConsole(stderr=True).print(message, soft_wrap=True)
    sys.exit(code)


def _bug_report(error: Exception) -> str:
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "cacr" in Path(frame.filename).parts
    ]
    where = f" at {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    what = str(error).strip().split("\n", 1)[0]
    return (
        f"this is a fault of cacr, please report it: {type(error).__name__}{where}: {what[:300]}\n"
        "run the same command with --debug, and add the traceback to your report"
    )


def _tell_version(asked: bool) -> None:
    if asked:
        print(f"cacr {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Show the version.")
    ] = False,
) -> None:
    """Options of all commands; ``main`` itself looks for ``--debug``."""
