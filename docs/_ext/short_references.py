"""References by a short name, or by that of a package that hands a thing on, lead to the one thing that is meant.

So ``:class:`Framework``` and ``:data:`cacr.frameworks.FRAMEWORKS``` are links, wherever these are defined.
"""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import ExtensionMetadata


def resolve(
    app: Sphinx, environment: BuildEnvironment, reference: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """A link where exactly one thing ends with the name; otherwise the name stays plain text."""
    if reference.get("refdomain") != "py" or not (target := reference.get("reftarget")):
        return None
    package, _, last = target.rpartition(".")
    known = environment.domains.python_domain.objects
    found = {
        name: entry
        for name, entry in known.items()
        if name.startswith(package) and name.endswith(f".{last}") and not entry.aliased
    }
    if len(found) != 1:
        return None
    ((name, entry),) = found.items()
    return make_refnode(app.builder, reference["refdoc"], entry.docname, entry.node_id, content, name)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Look whenever Sphinx itself has found nothing."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
