"""The position of this process among those started together by torchrun, SLURM or Fabric."""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

SAID_SECONDS = 60.0
"""Seconds during which the same message is not repeated. Processes that fail together fail within this time."""

_TOGETHER = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT")


_alone = ContextVar("alone", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """Work as if there were no other processes, and send nothing."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def world_size() -> int:
    """The number of processes that work together; 1 without a process group."""
    import torch.distributed as dist  # here, so that commands that compute nothing start without torch

    if _alone.get():
        return 1
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The rank of this process."""
    import torch.distributed as dist

    return dist.get_rank() if world_size() > 1 else 0


def is_first_process() -> bool:
    """Whether this process writes the files: the first of several processes, or the only one."""
    rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID"))
    if rank is None:  # Fabric's own launch with `nodes`: the user numbers machines, Fabric their processes
        return all(os.environ.get(name, "0") == "0" for name in ("NODE_RANK", "LOCAL_RANK"))
    return rank == "0"


def first_to_say(message: str) -> bool:
    """Whether no other process of this run and machine has just printed the same message; always True for one process.

    If several processes meet the same error, only one prints it. An error that a single process meets is printed too,
    for any rank.
    """
    group = [f"{name}={os.environ[name]}" for name in _TOGETHER if name in os.environ]
    if not group:
        return True
    digest = hashlib.blake2b(
        "\0".join([*group, message]).encode(errors="replace"), digest_size=12
    ).hexdigest()
    prefix = f"cacr-said-{os.getuid() if hasattr(os, 'getuid') else 0}-"
    said = Path(tempfile.gettempdir()) / f"{prefix}{digest}"
    for earlier in said.parent.glob(f"{prefix}*"):
        with suppress(OSError):
            if (
                time.time() - earlier.stat().st_mtime > SAID_SECONDS
            ):  # left by earlier runs, perhaps on the same port
                earlier.unlink()
    try:
        said.touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:  # better printed twice than never
        return True
    return True
