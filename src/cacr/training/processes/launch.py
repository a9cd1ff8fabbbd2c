"""Run in one or many processes: through Fabric, under torchrun or SLURM, or started here."""

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
from cacr.cores import share_of_cores
from cacr.errors import UserError, refusal
from cacr.training.processes.fabric import Fabric, SLURMEnvironment
from cacr.training.processes.precision import has_fast_bf16

T = TypeVar("T")

_LOST = re.compile("Connection (closed|reset) by peer")
"""Error of a process when another one that it communicates with has ended."""

# Fabric prints a greeting in every process; the relevant facts are printed before step 1.
logging.getLogger("lightning_fabric").setLevel(logging.WARNING)


@dataclass(frozen=True)
class Where:
    """Where something runs: devices, number of processes and precision.

    Attributes:
        accelerator: the kind of device; ``auto``: cuda if there is a GPU.
        devices: processes on this machine.
        nodes: number of machines.
        precision: precision of products; ``auto``: bf16 if the processor has it.
    """

    accelerator: Accelerator = "auto"
    devices: int = 1
    nodes: int = 1
    precision: Precision | Literal["auto"] = "float32"

    @classmethod
    def of(cls, settings: PretrainSettings) -> Self:
        """From the settings of a run."""
        return cls(settings.accelerator, settings.devices, settings.nodes, settings.precision)

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """The kind of device: the one that was asked for, or else the best available."""
        if self.accelerator != "auto":
            return self.accelerator
        return "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def processes(self) -> int:
        """The number of processes: under torchrun those that exist already."""
        if _under_torchrun():
            return int(os.environ["WORLD_SIZE"])
        return self.devices * self.nodes

    @property
    def machines(self) -> int:
        """The number of machines of these processes."""
        return self.processes // int(os.environ["LOCAL_WORLD_SIZE"]) if _under_torchrun() else self.nodes

    @property
    def spawns(self) -> bool:
        """Whether this process only waits for processes that it starts on this machine."""
        exist = _under_torchrun() or SLURMEnvironment.detect()
        return self.devices > 1 and self.nodes == 1 and not exist


def launch(work: Callable[..., T], where: Where, *arguments: Any) -> T:
    """Call ``work(fabric, *arguments)`` in every process; return the result of the first process.

    Under torchrun or SLURM the processes exist already. With several ``nodes``, Fabric runs the same command again
    for the other processes of this machine. Otherwise ``devices`` processes are started here; an error in one of them
    stops the others and is raised in this process. The process group ends with this call.
    """
    fabric = make_fabric(where)
    # Fabric searches the arguments of a launch for modules and fails on frozen dataclasses: so it gets none.
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
                raise  # a bug: its traceback is in the message
            reason = str(error).strip().split("\n")[-1]
            raise UserError(
                f"the training process of rank {error.error_index} failed and the others were stopped: {reason}\n"
                "continue the run from its last checkpoint with --resume"
            ) from error
    return result


@contextmanager
def _same_environment() -> Iterator[None]:
    """Remove the environment variables of the process group afterwards: this process is then alone again."""
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
    """Record Ctrl-C instead of raising: all processes receive it, and those that train save and stop themselves."""
    noted: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, previous)


def require_device(where: Where) -> None:
    """Refuse a kind of device that does not exist."""
    if where.kind == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "there is no CUDA device: leave out --set accelerator=cuda, or install a CUDA build of torch"
        )


def make_fabric(where: Where) -> Fabric:
    """Create the Fabric object with devices, processes and precision."""
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
    """Work with this process's share of the cores, if the user has not set the number of threads."""
    if fabric.device.type == "cpu" and fabric.world_size > 1 and "OMP_NUM_THREADS" not in os.environ:
        local = fabric.world_size // machines
        torch.set_num_threads(share_of_cores(local))
    return work(fabric, *arguments)


def _reporting(fabric: Fabric, job: Callable[[Fabric], T], message: Path) -> T:
    """Work in a started process; write an error that the user can fix to a file for the waiting process.

    The process group is destroyed before the interpreter ends: gloo threads that live longer can abort the process.
    """
    try:
        result = job(fabric)
        dist.destroy_process_group()
        return result
    except Exception as error:
        text = str(error) if isinstance(error, UserError) else refusal(error)
        if text is not None and not message.exists():
            message.write_text(text, encoding="utf-8", errors="backslashreplace")
        raise
