"""Processes and devices of a run, and what its settings and memory are there."""

from dataclasses import dataclass
from typing import Any, Self

import torch

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.training.cost.need import Need, training_need
from cacr.training.processes.fabric import Fabric
from cacr.training.processes.launch import Where
from cacr.training.settings.described import Described
from cacr.training.settings.resolve import resolve


@dataclass(frozen=True)
class Place:
    """Number of processes, and their device.

    Attributes:
        world_size: total number of processes.
        device: device of each process.
        machines: number of machines.
    """

    world_size: int
    device: torch.device
    machines: int = 1

    @classmethod
    def of(cls, asked: PretrainSettings, fabric: Fabric | None = None) -> Self:
        """The place that the settings ask for; with ``fabric``, that of the running processes."""
        where = Where.of(asked)
        if fabric is not None:
            return cls(fabric.world_size, fabric.device, where.machines)
        return cls(where.processes, torch.device(where.kind), where.machines)

    @property
    def on_cpu(self) -> bool:
        """Whether the run computes on a CPU."""
        return self.device.type == "cpu"

    def resolved(self, asked: PretrainSettings, data: Described, **chosen: Any) -> ResolvedSettings:
        """The settings without ``auto``; ``chosen`` overrides some of them."""
        asked = asked.model_copy(update=chosen)
        return resolve(asked, data, world_size=self.world_size, device=self.device)

    def need(self, settings: ResolvedSettings, data: Described) -> Need:
        """The memory that a process needs here."""
        return training_need(settings, data, processes=self.world_size, machines=self.machines)
