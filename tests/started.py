"""Processes that tests start: forked from a server in which everything is imported already.

To import torch and cacr takes longer than what most of these processes are started for. A process of the server is a
real one: it can be killed, gets signals, and is given nothing but what can be pickled.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing.connection import Connection
from typing import Any, TextIO

from torch.multiprocessing.spawn import start_processes

from cacr import cli
from cacr.training.processes.fabric import Fabric

IMPORTED = ["cacr.api", "timm.layers", "tests.conftest"]


@cache
def server() -> Any:
    """The context whose processes come from the server; what they print goes where the server's own would."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context


def work_together(work: Callable[..., None], processes: int, *arguments: Any) -> None:
    """Call ``work(rank, *arguments)`` in so many processes at once."""
    server()
    start_processes(work, arguments, processes, start_method="forkserver")


def fabric_of_server(*, strategy: Any, **given: Any) -> Fabric:
    """Fabric, but where it would spawn processes it takes them from the server."""
    from lightning_fabric.strategies import DDPStrategy  # after cacr has imported Fabric in its own way

    server()
    return Fabric(
        strategy=DDPStrategy(start_method="forkserver") if strategy == "ddp_spawn" else strategy, **given
    )


def start_command(
    arguments: Sequence[object], prepare: Callable[[], None] | None = None
) -> tuple[Any, TextIO]:
    """``cacr`` with these arguments in a process group of its own, as a terminal or a cluster starts it.

    Args:
        arguments: of the command line.
        prepare: is called in the process before the command.

    Returns:
        The process, and what it prints.
    """
    printed, out = server().Pipe(duplex=False)
    process = server().Process(target=_command, args=([*map(str, arguments)], out, prepare))
    process.start()
    out.close()
    return process, os.fdopen(os.dup(printed.fileno()), encoding="utf-8")


def _command(arguments: list[str], out: Connection, prepare: Callable[[], None] | None) -> None:
    os.setsid()
    os.dup2(out.fileno(), 1)
    out.close()
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  (until the process ends)
    if prepare is not None:
        prepare()
    sys.argv = ["cacr", *arguments]
    cli.main()
