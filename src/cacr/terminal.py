"""Printing for people: text as it is, but for what would steer the terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from cacr.files import printable


class CleanConsole(Console):
    """A console on which names and texts from files cannot move the cursor, ring, or colour what follows.

    Nothing is read as markup, and nothing is highlighted.
    """

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, highlight=False, markup=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Text as it is shown: cleaned before it is measured, so that columns have room for it."""
        return super().render_str(_clean(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts of what is printed, each cleaned; rich's own control codes stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_clean(segment.text), segment.style)


def _clean(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
