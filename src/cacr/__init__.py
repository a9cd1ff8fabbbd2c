"""Self-supervised image representation learning with contrastive attraction and contrastive repulsion.

The public names are imported when they are first used, so that ``import cacr`` and ``cacr --help`` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from cacr.api import (
        compare,
        embed,
        evaluate,
        evaluate_suite,
        export,
        figures,
        pretrain,
        report,
        reproduce,
        search,
    )
    from cacr.curation import group, predict, select
    from cacr.encoders import load_encoder
    from cacr.losses import CACRLoss

__all__ = [
    "CACRLoss",
    "compare",
    "embed",
    "evaluate",
    "evaluate_suite",
    "export",
    "figures",
    "group",
    "load_encoder",
    "predict",
    "pretrain",
    "report",
    "reproduce",
    "search",
    "select",
]

_HOME = {
    "CACRLoss": "cacr.losses",
    "compare": "cacr.api",
    "embed": "cacr.api",
    "evaluate": "cacr.api",
    "evaluate_suite": "cacr.api",
    "export": "cacr.api",
    "figures": "cacr.api",
    "group": "cacr.curation",
    "load_encoder": "cacr.encoders",
    "predict": "cacr.curation",
    "pretrain": "cacr.api",
    "report": "cacr.api",
    "reproduce": "cacr.api",
    "search": "cacr.api",
    "select": "cacr.curation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cacr' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """The public names, for editors and ``dir(cacr)``."""
    return [*__all__, "__version__"]
