"""Lightning Fabric, without the seconds that it would spend on importing another package.

Fabric asks torchmetrics for its version, and to import that imports torchvision, transformers and SciPy where they are
installed: more than half of the time that a training process took to start. Here it is told the version instead.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

_ASKED = "torchmetrics"


@contextmanager
def _known_version() -> Iterator[None]:
    """Put a module that only has a version in the place of one that is installed and not imported yet."""
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
