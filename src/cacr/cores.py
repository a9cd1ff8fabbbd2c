"""The processor cores that this process may use."""

import os


def available_cores() -> int:
    """Cores for this process: fewer than the machine has in a container, under ``taskset`` or in a job of a cluster."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_of_cores(processes: int) -> int:
    """Cores for each of ``processes`` on this machine.

    Processes share the cores of the process that started them. Tasks of SLURM may have been given cores of their own;
    these are not divided again.
    """
    cores = available_cores()
    if "SLURM_LOCALID" in os.environ and "TORCHELASTIC_RUN_ID" not in os.environ:
        return max(1, min(cores, (os.cpu_count() or 1) // processes))
    return max(1, cores // processes)
