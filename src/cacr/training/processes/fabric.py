"""Import Lightning Fabric without the slow import of torchmetrics.

Fabric asks for the version of torchmetrics. To import torchmetrics also imports torchvision, transformers and SciPy if
they are installed, which took more than half of the start of a training process. Here Fabric only gets the version.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

_ASKED = "torchmetrics"


@contextmanager
def _known_version() -> Iterator[None]:
    """Replace an installed, not yet imported module by one that only has a version."""
    stand_in = ModuleType(_ASKED)
    try:
        stand_in.__dict__["__version__"] = version(_ASKED)
    except PackageNotFoundError:
        yield
        return
    found = sys.modules.setdefault(_ASKED, stand_in)
    try:
        yield
    finally:
        if found is stand_in:
            del sys.modules[_ASKED]


with _known_version():
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning_fabric.wrappers import _FabricModule as FabricModule

__all__ = ["Fabric", "FabricModule", "SLURMEnvironment"]
