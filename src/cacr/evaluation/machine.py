"""Where and in what portions images are encoded."""

import os
from dataclasses import dataclass, field
from typing import Literal

import torch

from cacr.config import Auto
from cacr.data import ArraySource, Source
from cacr.errors import UserError


@dataclass(frozen=True)
class Machine:
    """How images are encoded: it changes the speed and nothing else.

    Attributes:
        batch_size: Images encoded at once.
        workers: Processes that decode files; arrays need none.
        device: Where to compute.
    """

    batch_size: int = 256
    workers: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


def choose_machine(
    sources: list[Source],
    *,
    batch_size: int = 256,
    workers: int | Auto = "auto",
    accelerator: Literal["auto", "cpu", "cuda"] = "auto",
) -> Machine:
    """A machine with ``auto`` resolved: a worker for each core if there are files, a GPU if there is one."""
    files = any(not isinstance(source, ArraySource) for source in sources)
    processes = (min(8, os.cpu_count() or 1) if files else 0) if workers == "auto" else workers
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise UserError("there is no CUDA device; leave accelerator out, or set it to cpu")
    cuda = accelerator != "cpu" and torch.cuda.is_available()
    return Machine(batch_size, processes, torch.device("cuda" if cuda else "cpu"))
