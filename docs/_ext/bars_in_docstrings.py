"""Bars in docstrings are those of mathematics, as in |x|; to Sphinx they would be the marks of a substitution."""

import re

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def escape(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Put a backslash before every bar that does not stand in a literal block or in code."""
    literal = False
    for number, line in enumerate(lines):
        if line and not line.startswith(" "):
            literal = False
        if not literal:
            parts = re.split(r"(``.*?``)", line)
            lines[number] = "".join(p if p.startswith("``") else p.replace("|", "\\|") for p in parts)
        literal = literal or line.endswith("::")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Look at every docstring after it was put into reStructuredText."""
    app.connect("autodoc-process-docstring", escape, priority=900)
    return {"parallel_read_safe": True}
