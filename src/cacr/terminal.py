"""Printing for people: text as it is, but for what would steer the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from cacr.files import printable


class CleanConsole(Console):
    """A console on which names and texts from files cannot move the cursor, ring, or colour what follows.

    Nothing is read as markup, and nothing is highlighted.
    """

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, highlight=False, markup=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts of what is printed, each cleaned; rich's own control codes stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control or segment.text == "\n" else _clean(segment)


def _clean(segment: Segment) -> Segment:
    lines = segment.text.split("\n")
    return Segment("\n".join(printable(line) for line in lines), segment.style)
