"""Device, batch size and workers for encoding images."""

import math
from dataclasses import dataclass, field
from typing import Literal

import torch

from cacr.config import Auto
from cacr.data import Source
from cacr.data.workers import default_workers
from cacr.distributed import world_size
from cacr.errors import UserError
from cacr.reading.memory import free_memory


@dataclass(frozen=True)
class Machine:
    """How images are encoded: this changes only the speed.

    Attributes:
        batch_size: Images per forward pass.
        workers: Processes that decode files; arrays need none.
        device: Device for computing.
        memory: Largest size of the features of one source in memory, in bytes; more go into a temporary file.
    """

    batch_size: int = 256
    workers: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    memory: float = math.inf


def choose_machine(
    sources: list[Source],
    *,
    batch_size: int = 256,
    workers: int | Auto = "auto",
    accelerator: Literal["auto", "cpu", "cuda"] = "auto",
    memory_gb: float | Auto = "auto",
) -> Machine:
    """Replace ``auto``: one worker per core if there are files, a GPU if there is one.

    With several processes, each has its own GPU, and its share of the workers and the memory.
    """
    if workers == "auto":
        in_memory = all(source.image_size is not None for source in sources)
        workers = default_workers(world_size(), in_memory=in_memory)
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise UserError("there is no CUDA device: leave out accelerator, or set it to cpu")
    cuda = accelerator != "cpu" and torch.cuda.is_available()
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    memory = free_memory() / 2 / world_size() if memory_gb == "auto" else memory_gb * 2**30
    return Machine(batch_size, workers, device, memory)
