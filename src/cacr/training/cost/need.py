"""Estimate the memory that a run needs before it is loaded, as a sum of named parts."""

from dataclasses import dataclass

from cacr.config import ResolvedSettings
from cacr.data.workers import BATCHES_AHEAD
from cacr.reading.memory import HOLES, WORKER, free_memory, gigabytes, resident_memory
from cacr.training.building.build import feature_view_of
from cacr.training.building.held_out import KEPT_BYTES
from cacr.training.cost.passes import LOOKS, count_passes, view_sizes
from cacr.training.settings.described import Described

KERNELS = 30_000_000
"""Bytes of code that torch generates for the shapes of a step, and of libraries that are loaded at first use."""

PAGE = 250_000_000
"""Bytes for the libraries, the map and the pictures of a run's report."""


@dataclass(frozen=True)
class Need:
    """Memory of one process, including its decoding processes.

    Attributes:
        parts: bytes by purpose.
        resident: bytes of them that the process already holds.
        processes: number of processes on this machine that need as much each.
        on_device: names of the parts that are on a GPU, if there is one.
    """

    parts: dict[str, int]
    resident: int = 0
    processes: int = 1

    on_device = ("weights", "step")

    @property
    def total(self) -> int:
        """Bytes of one process."""
        return sum(self.parts.values())

    @property
    def more(self) -> int:
        """Bytes that all processes of this machine will request in addition."""
        return self.processes * (self.total - self.resident)

    def device_bytes(self) -> int:
        """Bytes on a process's GPU."""
        return sum(self.parts[name] for name in self.on_device)

    def largest(self, count: int = 3) -> str:
        """The largest parts, in words."""
        ordered = sorted(self.parts.items(), key=lambda part: -part[1])[:count]
        return ", ".join(f"{name} {gigabytes(size, 2)}" for name, size in ordered)

    def in_words(self, parts: int = 3) -> str:
        """The need, its largest parts, and the free memory."""
        each = f" in each of {self.processes} processes" if self.processes > 1 else ""
        return (
            f"about {gigabytes(self.total, 2)}{each} ({self.largest(parts)}); {gigabytes(free_memory())} free"
        )


def training_need(
    settings: ResolvedSettings, data: Described, *, processes: int = 1, machines: int = 1, page: bool = True
) -> Need:
    """The most memory that a process holds at once, from the first step to the page of the run.

    Nothing is computed: a step, a measurement and the encoding for the report are simulated with tensors that have
    no values.

    Args:
        settings: settings of the run.
        data: its images; those in memory are already resident.
        processes: number of processes in total.
        machines: number of machines that they run on.
        page: whether the report of the run follows.
    """
    share = -(-settings.batch_size // processes)
    passes = count_passes(settings, share)
    step = round(HOLES * passes.step) + _others_embeddings(settings, share, processes)
    # the state of the optimiser is released before the report is made
    paging = page * (round(HOLES * passes.paging) + PAGE - passes.states)
    crops = sum(settings.channels * size**2 * count for size, count in view_sizes(settings))
    parts = {
        "program": 0,
        "weights": passes.weights + passes.states,
        "step": max(step, round(HOLES * passes.measuring), paging),
        "held-out crops": 0 if data.in_memory else _kept_crops(settings, data),
        "decoding": settings.workers * (WORKER + (2 + BATCHES_AHEAD) * share * crops),
    }
    resident = resident_memory()  # now, for what was imported meanwhile is imported for training too
    parts["program"] = resident + KERNELS
    return Need(parts, resident, -(-processes // machines))


def _others_embeddings(settings: ResolvedSettings, share: int, processes: int) -> int:
    """What several processes hold of each other's embeddings: see docs/explanation/cost-of-a-step.md, Formulas."""
    if processes == 1:
        return 0
    block = 4 * settings.views * share * settings.dim
    return 6 * block if settings.exchange == "ring" else 5 * (processes - 1) * block


def _kept_crops(settings: ResolvedSettings, data: Described) -> int:
    """Crops of the measured images, which are kept from one measurement to the next."""
    pixels = (sum(LOOKS) - 1) * settings.image_size**2 + feature_view_of(settings).size ** 2
    return min(KEPT_BYTES, data.measured * settings.channels * pixels)
