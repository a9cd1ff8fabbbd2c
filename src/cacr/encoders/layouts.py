"""Checkpoints of other software: recognise the software, and find the backbone.

A backbone is found by names that all models of its family have, anywhere in the file; the prefix of these names
(``module.encoder_q.``) shows which software wrote it. Names follow the published code.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from cacr.encoders.hugging_face import PREFIX
from cacr.errors import UserError

Family = Literal["resnet", "vit", "small_alexnet"]

WRAPPERS = frozenset({"module", "state_dict", "model", "_orig_mod", "classy_state_dict", "base_model"})
"""Parts of a name that wrappers add: a checkpoint, distributed training, a compiled module."""


TRANSFORMERS = "Hugging Face's transformers"


@dataclass(frozen=True)
class Layout:
    """The place of the backbone in the files of one software.

    Attributes:
        software: its common name.
        prefix: prefix of the backbone's names, without :data:`WRAPPERS`.
        beside: the start of another name that must also be there; empty if the prefix is enough.
    """

    software: str
    prefix: str
    beside: str = ""


LAYOUTS = (
    Layout("MoCo v1 or v2 (or CACR in it), query encoder", "encoder_q"),
    Layout("MoCo v3 (or CACR in it), base encoder", "base_encoder"),
    Layout(TRANSFORMERS, PREFIX.removesuffix(".")),
    Layout("DINO, teacher", "teacher.backbone"),
    Layout("DINO, teacher", "teacher"),
    Layout("lightly, teacher", "teacher_backbone"),
    Layout("BYOL, online network", "online_network.encoder"),
    Layout("BYOL, online network", "online_network_state_dict.encoder"),
    Layout("BYOL, online network", "online_encoder.net"),
    Layout("BYOL, online network", "online_encoder"),
    Layout("SimSiam", "encoder", beside="predictor."),
    Layout("solo-learn", "backbone", beside="classifier."),
    Layout("solo-learn", "encoder", beside="classifier."),
    Layout("Barlow Twins", "backbone", beside="bn."),
    Layout("VISSL", "trunk._feature_blocks"),
    Layout("lightly, vision transformer", "backbone.vit"),
    Layout("lightly, or another with a backbone", "backbone"),
    Layout("SimCLR", "convnet"),
    Layout("SimCLR, or another with an encoder", "encoder"),
    Layout("SwAV", "", beside="prototypes."),
    Layout("plain", ""),
)
"""In the order in which they are tried: if a file has two encoders, the one that its authors evaluate comes first."""


@dataclass(frozen=True)
class Backbone:
    """A backbone found in a file.

    Attributes:
        family: the family of its names.
        software: description of the software that wrote it.
        tensors: tensors by their names in cacr.
        sources: names in the file, by the same names.
    """

    family: Family
    software: str
    tensors: dict[str, Tensor]
    sources: dict[str, str]


def find_backbone(tensors: Mapping[str, Tensor]) -> Backbone | None:
    """The backbone in a file, with the names of cacr; None if no family is recognised.

    Raises:
        UserError: there are several, and it is unclear which one to use.
    """
    found = dict(_candidates(tensors))
    plain = {
        _bare(prefix.removesuffix(".")): prefix for prefix in reversed(found)
    }  # keep the first of equal ones
    names = {_bare(name) for name in tensors}
    for layout in LAYOUTS:
        if layout.prefix in plain and any(name.startswith(layout.beside) for name in names):
            return _backbone(tensors, plain[layout.prefix], found[plain[layout.prefix]], layout.software)
    if len(found) > 1:
        raise UserError(
            f"the file has {len(found)} backbones, under {', '.join(found)}, and none of them is in a known layout: "
            "save only the one to use"
        )
    for prefix, family in found.items():
        return _backbone(tensors, prefix, family, f"unknown software, under {prefix}")
    return None


def preference(prefix: str) -> int:
    """The index in :data:`LAYOUTS` of a prefix; after all others if it is not known."""
    bare = _bare(prefix.removesuffix("."))
    return next((place for place, layout in enumerate(LAYOUTS) if layout.prefix == bare), len(LAYOUTS))


def _bare(name: str) -> str:
    """A name without the parts that wrappers add."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def _candidates(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Family]]:
    """The prefix of each backbone, with its dot, and its family."""
    for name in tensors:
        if name.endswith("conv1.weight"):
            prefix = name.removesuffix("conv1.weight")
            if f"{prefix}layer1.0.conv1.weight" in tensors:
                yield prefix, "resnet"
            elif (stage := re.fullmatch(r"(.*\.|)\d+\.0\.", prefix)) and f"{stage[1]}0.weight" in tensors:
                yield stage[1], "resnet"
        elif name.endswith("patch_embed.proj.weight"):
            prefix = name.removesuffix("patch_embed.proj.weight")
            if f"{prefix}blocks.0.attn.qkv.weight" in tensors:
                yield prefix, "vit"
        elif name.endswith("blocks.0.0.weight"):
            prefix = name.removesuffix("blocks.0.0.weight")
            if f"{prefix}blocks.6.0.weight" in tensors:
                yield prefix, "small_alexnet"
        elif name.endswith("conv1.0.weight"):
            prefix = name.removesuffix("conv1.0.weight")
            if f"{prefix}fc7.0.weight" in tensors:
                yield prefix, "small_alexnet"


def _backbone(tensors: Mapping[str, Tensor], prefix: str, family: Family, software: str) -> Backbone:
    inside = {name.removeprefix(prefix): name for name in tensors if name.startswith(prefix)}
    sources = {ours: inside[theirs] for theirs, ours in _RENAME[family](list(inside)).items()}
    return Backbone(family, software, {ours: tensors[name] for ours, name in sources.items()}, sources)


def _resnet_names(names: Sequence[str]) -> dict[str, str]:
    """Names in timm of a ResNet whose parts have names, or numbers as in ``nn.Sequential(*resnet.children())``."""
    stages = sorted(
        {int(found[1]) for name in names if (found := re.match(r"(\d+)\.0\.conv1\.weight$", name))}
    )
    parts = {"0": "conv1", "1": "bn1", **{str(n): f"layer{i}" for i, n in enumerate(stages, 1)}}
    renamed = {}
    for name in names:
        first, _, rest = name.partition(".")
        ours = f"{parts[first]}.{rest}" if stages and first in parts else name
        renamed[name] = ours.replace(".shortcut.", ".downsample.")
    return renamed


_ALEXNET_BLOCKS = ("conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7")


def _alexnet_names(names: Sequence[str]) -> dict[str, str]:
    """Names in cacr of the small AlexNet, whose authors number its blocks; block 7 is the head."""
    renamed = {}
    for name in names:
        block = re.match(r"blocks\.([0-6])\.", name)
        renamed[name] = name if block is None else f"{_ALEXNET_BLOCKS[int(block[1])]}.{name[block.end() :]}"
    return renamed


def _same_names(names: Sequence[str]) -> dict[str, str]:
    return {name: name for name in names}


_RENAME: dict[Family, Callable[[Sequence[str]], dict[str, str]]] = {
    "resnet": _resnet_names,
    "vit": _same_names,
    "small_alexnet": _alexnet_names,
}
"""Functions from a file's names of a backbone, without prefix, to the names of cacr."""
