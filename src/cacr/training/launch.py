"""One process or many: through Fabric, under torchrun or SLURM, or started here."""

import logging
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from cacr.config import Accelerator, Precision, PretrainSettings
from cacr.errors import UserError, refusal
from cacr.training.fabric import Fabric, SLURMEnvironment
from cacr.training.precision import has_fast_bf16

T = TypeVar("T")

_LOST = re.compile("Connection (closed|reset) by peer")
"""What a process raises when another one that it talks to has ended."""

# Fabric greets from every process; what a user needs to know of them is printed before step 1.
logging.getLogger("lightning_fabric").setLevel(logging.WARNING)


@dataclass(frozen=True)
class Where:
    """Where something runs: on which devices, in how many processes and with which numbers.

    Attributes:
        accelerator: the kind of device; ``auto``: the best there is.
        devices: processes on this machine.
        nodes: machines.
        precision: of products; ``auto``: bf16 where the processor has it.
    """

    accelerator: Accelerator = "auto"
    devices: int = 1
    nodes: int = 1
    precision: Precision | Literal["auto"] = "float32"

    @classmethod
    def of(cls, settings: PretrainSettings) -> Self:
        """As the settings of a run have it."""
        return cls(settings.accelerator, settings.devices, settings.nodes, settings.precision)

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """The kind of device: the one that was asked for, or the best there is."""
        if self.accelerator != "auto":
            return self.accelerator
        return "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def processes(self) -> int:
        """How many processes there will be: those that exist already under torchrun."""
        if _under_torchrun():
            return int(os.environ["WORLD_SIZE"])
        return self.devices * self.nodes

    @property
    def machines(self) -> int:
        """How many machines these processes are on."""
        return self.processes // int(os.environ["LOCAL_WORLD_SIZE"]) if _under_torchrun() else self.nodes

    @property
    def spawns(self) -> bool:
        """Whether this process only waits for others that it starts, all of them on this machine."""
        exist = _under_torchrun() or SLURMEnvironment.detect()
        return self.devices > 1 and self.nodes == 1 and not exist


def launch(work: Callable[..., T], where: Where, *arguments: Any) -> T:
    """Call ``work(fabric, *arguments)`` in every process; returns what the first one returns.

    Under torchrun or SLURM the processes exist already; with several ``nodes`` Fabric runs the same command again
    for the others of this machine. Otherwise ``devices`` of them are started here, and an error of any one ends the
    others and is raised in this process. The processes part in the end: what comes after is each one's own.
    """
    fabric = make_fabric(where)
    # Fabric looks for modules in the arguments of a launch and stumbles over frozen dataclasses: none for it.
    job = partial(_limited, work=work, machines=where.machines, arguments=arguments)
    if not where.spawns:
        joined = dist.is_initialized()
        result: T = fabric.launch(job)
        if dist.is_initialized() and not joined:
            dist.destroy_process_group()
        return result
    with tempfile.TemporaryDirectory() as folder, _noted_interrupts() as interrupts, _same_environment():
        message = Path(folder) / "error"
        try:
            result = fabric.launch(partial(_reporting, job=job, message=message))
        except (ProcessRaisedException, ProcessExitedException) as error:
            if message.exists():
                raise UserError(message.read_text(encoding="utf-8")) from None
            if interrupts:
                raise KeyboardInterrupt from None
            if isinstance(error, ProcessRaisedException) and not _LOST.search(str(error)):
                raise  # not for the user to change: its traceback is in the message
            reason = str(error).strip().split("\n")[-1]
            raise UserError(
                f"the training process of rank {error.error_index} failed and the others were stopped: {reason}\n"
                "the run can be continued with --resume from its last checkpoint"
            ) from error
    return result


@contextmanager
def _same_environment() -> Iterator[None]:
    """Forget where the processes met: what comes after in this process is not one of several."""
    before = {name: os.environ.get(name) for name in ("MASTER_ADDR", "MASTER_PORT")}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Note Ctrl-C instead of raising: it reaches all processes, and those that train save and stop themselves."""
    noted: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, previous)


def require_device(where: Where) -> None:
    """Refuse a kind of device that is not there."""
    if where.kind == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "there is no CUDA device: leave --set accelerator=cuda out, or install a CUDA build of torch"
        )


def make_fabric(where: Where) -> Fabric:
    """Devices, processes and precision."""
    require_device(where)
    devices = int(os.environ["LOCAL_WORLD_SIZE"]) if _under_torchrun() else where.devices
    alone = devices * where.machines == 1
    bf16 = where.precision == "bf16" or (
        where.precision == "auto" and has_fast_bf16(torch.device(where.kind))
    )
    return Fabric(
        accelerator=where.kind,
        devices=devices,
        num_nodes=where.machines,
        strategy="auto" if alone else "ddp_spawn" if where.spawns else "ddp",
        precision="bf16-mixed" if bf16 else "32-true",
    )


def _under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _limited(fabric: Fabric, work: Callable[..., T], machines: int, arguments: Sequence[Any]) -> T:
    """Work with this process's share of the cores, unless the user has said how many threads there shall be."""
    if fabric.device.type == "cpu" and fabric.world_size > 1 and "OMP_NUM_THREADS" not in os.environ:
        local = fabric.world_size // machines
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // local))
    return work(fabric, *arguments)


def _reporting(fabric: Fabric, job: Callable[[Fabric], T], message: Path) -> T:
    """Work in a started process; what a user can mend is left in a file for the process that waits.

    The group is taken apart before the interpreter ends: threads of gloo that outlive it can abort the process.
    """
    try:
        result = job(fabric)
        dist.destroy_process_group()
        return result
    except Exception as error:
        told = str(error) if isinstance(error, UserError) else refusal(error)
        if told is not None and not message.exists():
            message.write_text(told, encoding="utf-8", errors="backslashreplace")
        raise
