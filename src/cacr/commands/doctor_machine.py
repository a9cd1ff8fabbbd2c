"""Describe this machine: versions, processor, memory, GPUs."""

import platform
from collections.abc import Iterator

import torch

import cacr
from cacr.cores import available_cores
from cacr.reading.memory import free_memory, gigabytes
from cacr.training.processes.precision import cpu_flags, has_fast_bf16


def describe_machine() -> Iterator[str]:
    """Versions, devices and number formats."""
    import timm
    import torchvision

    yield f"cacr {cacr.__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield f"torch {torch.__version__}, torchvision {torchvision.__version__}, timm {timm.__version__}"
    cpu = torch.device("cpu")
    kind = torch.backends.cpu.get_cpu_capability()
    amx = ", AMX" if "amx_bf16" in cpu_flags() else ""
    cores = available_cores()
    counted = f"{cores} core{'s' * (cores != 1)}, {torch.get_num_threads()} threads"
    yield f"CPU: {counted}, {kind}{amx}; bf16 {_fast(cpu)}"
    yield f"memory: {gigabytes(free_memory())} free"
    for number in range(torch.cuda.device_count()):
        device = torch.device("cuda", number)
        memory = torch.cuda.get_device_properties(device).total_memory / 1e9
        yield f"GPU {number}: {torch.cuda.get_device_name(device)}, {memory:.0f} GB; bf16 {_fast(device)}"
    if not torch.cuda.is_available():
        yield "GPU: none; on a CPU, use small images and a narrow encoder (--width 0.25)"


def _fast(device: torch.device) -> str:
    return "in hardware" if has_fast_bf16(device) else "not in hardware (float32 is used)"
