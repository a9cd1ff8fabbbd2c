"""The plan of a run: decided in every process before anything is built or written."""

from collections.abc import Callable
from typing import NamedTuple

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.runs.folder import RunFolder
from cacr.training.building.data import TrainingData
from cacr.training.cost.fit import require_room
from cacr.training.cost.need import Need
from cacr.training.cost.place import Place
from cacr.training.cost.timed import Timed, fit_time
from cacr.training.processes.fabric import Fabric
from cacr.training.settings.resolve import choices


class Plan(NamedTuple):
    """Settings without ``auto``, the memory that a process needs, and notes on what was chosen."""

    settings: ResolvedSettings
    need: Need
    reasons: list[str]


def make_plan(
    fabric: Fabric,
    asked: PretrainSettings,
    run: RunFolder,
    data: TrainingData,
    *,
    resuming: bool,
    began: float,
    observed: bool,
    tell: Callable[[str], None],
) -> Plan:
    """Decide the length, settings and memory of a run; the arguments are those of :func:`fit_time`.

    A resumed run keeps its number of steps, even if the machine is faster or slower now.

    Raises:
        UserError: the run does not fit into the available time or memory.
    """
    timed = Timed(asked)
    if not resuming:
        timed = fit_time(fabric, asked, run, data, began=began, observed=observed, tell=tell)
    place = Place.of(asked, fabric)
    settings = place.resolved(timed.settings, data.described)
    need = timed.need or require_room(settings, data.described, place)
    return Plan(settings, need, [*timed.reasons, *choices(asked, settings)])
