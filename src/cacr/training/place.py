"""Where a run would be, and what its settings become and need there."""

from dataclasses import dataclass
from typing import Any, Self

import torch

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.training.fabric import Fabric
from cacr.training.launch import Where
from cacr.training.need import Need, training_need
from cacr.training.resolve import Described, resolve


@dataclass(frozen=True)
class Place:
    """Processes, and what they compute on.

    Attributes:
        world_size: processes in all.
        device: of each of them.
        machines: that they are on.
    """

    world_size: int
    device: torch.device
    machines: int = 1

    @classmethod
    def of(cls, asked: PretrainSettings, fabric: Fabric | None = None) -> Self:
        """The place that settings ask for; with ``fabric`` that of the processes which are there."""
        where = Where.of(asked)
        if fabric is not None:
            return cls(fabric.world_size, fabric.device, where.machines)
        return cls(where.processes, torch.device(where.kind), where.machines)

    @property
    def on_cpu(self) -> bool:
        """Whether it computes on a CPU."""
        return self.device.type == "cpu"

    def resolved(self, asked: PretrainSettings, data: Described, **chosen: Any) -> ResolvedSettings:
        """The settings without ``auto``, some of them chosen already."""
        asked = asked.model_copy(update=chosen)
        return resolve(asked, data, world_size=self.world_size, device=self.device)

    def need(self, settings: ResolvedSettings, data: Described) -> Need:
        """The memory of a process here."""
        return training_need(settings, data, processes=self.world_size, machines=self.machines)
