"""What a run will be: settled in every process before anything is built or written."""

from collections.abc import Callable
from typing import NamedTuple

from cacr.config import PretrainSettings, ResolvedSettings
from cacr.runs.folder import RunFolder
from cacr.training.data import TrainingData
from cacr.training.fabric import Fabric
from cacr.training.fit import require_room
from cacr.training.need import Need
from cacr.training.place import Place
from cacr.training.resolve import choices
from cacr.training.timed import Timed, fit_time


class Plan(NamedTuple):
    """Settings without ``auto``, the memory that a process needs with them, and what was chosen, in words."""

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
    """Settle the length of a run, its settings and its memory; the arguments are those of :func:`fit_time`.

    A run that is resumed keeps its steps, however fast the machine is now.

    Raises:
        UserError: it does not fit into the time or the memory that there is.
    """
    timed = Timed(asked)
    if not resuming:
        timed = fit_time(fabric, asked, run, data, began=began, observed=observed, tell=tell)
    place = Place.of(asked, fabric)
    settings = place.resolved(timed.settings, data.described)
    need = timed.need or require_room(settings, data.described, place)
    return Plan(settings, need, [*timed.reasons, *choices(asked, settings)])
