"""Figures by name: each one is a function in its own file that registers itself here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cacr.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = TypeVar("Draw", bound=Callable[..., "Figure"])


@dataclass(frozen=True)
class Drawing:
    """How a figure is drawn.

    Attributes:
        summary: one line for listings.
        draw: ``draw(runs)`` draws all runs in one figure; with ``each_run``, ``draw(run, query)`` draws one of them.
        each_run: whether there is one figure per run.
        of_query: whether a figure of all runs shows one query: ``draw(runs, query)``.
    """

    summary: str
    draw: "Callable[..., Figure]"
    each_run: bool
    of_query: bool = False

    def __post_init__(self) -> None:
        # listings use the first line of the docstring
        object.__setattr__(self, "__doc__", self.summary)


FIGURES: Registry[Drawing] = Registry("figure")
"""All figures by name."""


def register_figure(
    name: str, summary: str, *, each_run: bool = False, of_query: bool = False
) -> Callable[[Draw], Draw]:
    """A decorator that registers a function as the figure ``name``, see :class:`Drawing`.

    The function raises a :class:`cacr.errors.UserError` if the runs do not have what it needs.
    """

    def remember(draw: Draw) -> Draw:
        FIGURES.register(name)(Drawing(summary, draw, each_run, of_query))
        return draw

    return remember
