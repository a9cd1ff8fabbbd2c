"""What Linux says of the processor: its name, and whether it multiplies bf16 numbers fast."""

from pathlib import Path

import torch

_BF16_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}
"""CPU features for bf16 products in hardware (Intel, AMD, Arm); without them float32 is faster."""


def cpu_field(*names: str) -> str:
    """The first field of this CPU with one of these names, as Linux reports them; empty if there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip().lower() in names:
            return value.strip()
    return ""


def cpu_flags() -> frozenset[str]:
    """Features of this CPU as Linux reports them; empty on other systems."""
    return frozenset(cpu_field("flags", "features").split())


def has_fast_bf16(device: torch.device) -> bool:
    """Whether bf16 products run in hardware on ``device``."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bool(cpu_flags() & _BF16_FLAGS)
