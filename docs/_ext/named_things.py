"""The directive ``named-things``: a table of everything of one kind that has a name, taken from the code.

The kinds and their tables are those of ``cacr list KIND``, so that page and command cannot disagree.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata


class NamedThings(SphinxDirective):
    """A table like that of ``cacr list KIND``; the argument is the kind."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One table per kind, its first column as code."""
        from cacr.commands.listing import listing

        return [_table(table) for table in listing(self.arguments[0])]


def _table(listed: object) -> nodes.table:
    columns = listed.columns  # type: ignore[attr-defined]
    group = nodes.tgroup(cols=len(columns))
    group += [nodes.colspec(colwidth=1 if number == 0 else 3) for number in range(len(columns))]
    group += nodes.thead("", _row([nodes.Text(str(column.header)) for column in columns]))
    body = nodes.tbody()
    for first, *others in zip(*(list(column.cells) for column in columns), strict=True):
        body += _row([nodes.literal(text=str(first)), *(nodes.Text(str(other)) for other in others)])
    group += body
    table = nodes.table("", group, classes=["colwidths-auto"])
    return table


def _row(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Make the directive known."""
    app.add_directive("named-things", NamedThings)
    return {"parallel_read_safe": True}
