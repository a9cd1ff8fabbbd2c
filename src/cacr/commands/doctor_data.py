"""Describe data, and suggest the next command."""

from collections.abc import Iterator
from pathlib import Path

from cacr.data import Inspection
from cacr.data.inspection import FEW_IMAGES
from cacr.encoders.at_hand import pretrained_at_hand
from cacr.files import printable
from cacr.shell import shell_words

PRETRAINED = "timm:resnet18"
"""Suggested encoder if there are no local pretrained weights: small, and good for most photos."""


def describe_data(found: Inspection) -> Iterator[str]:
    """Lines that describe the result of an inspection."""
    yield f"data {found.name}: {found.count:,} images, {found.examined:,} checked"
    if found.sizes:
        small, middle, large = (f"{width} x {height}" for width, height in found.sizes)
        yield f"sizes: smallest {small}, median {middle}, largest {large}"
    if found.formats:
        yield "formats: " + ", ".join(f"{name} {count:,}" for name, count in found.formats.items())
    if found.classes:
        counts = found.classes.values()
        yield f"classes: {len(counts)}, with {min(counts):,} to {max(counts):,} images"
    else:
        yield "classes: none (labels are not needed for pretraining)"
    yield from _objects(found)
    for problem in found.unreadable[:10]:
        yield f"unreadable: {problem}"
    if len(found.unreadable) > 10:
        yield f"unreadable: {len(found.unreadable) - 10:,} more"
    for line in found.unread:
        yield f"not read: {line}"
    for words, groups in (("the same image", found.duplicates), ("nearly the same image", found.near)):
        for group in groups[:10]:
            yield f"{words}: {', '.join(group[:4])}"
        if len(groups) > 10:
            yield f"{words}: {len(groups) - 10:,} more"
    for warning in found.warnings:
        yield f"warning: {warning}"
    if not (found.unreadable or found.duplicates or found.near or found.warnings or found.skipped):
        yield "no problems found"


def _objects(found: Inspection) -> Iterator[str]:
    """Lines about annotated objects."""
    if found.objects is not None:
        counted = ", ".join(f"{printable(name)} {count:,}" for name, count in found.objects.items())
        yield f"annotated objects: {sum(found.objects.values()):,} ({counted})"
    for text in found.skipped[:10]:
        yield f"annotation left out: {printable(text)}"
    if len(found.skipped) > 10:
        yield f"annotation left out: {len(found.skipped) - 10:,} more"


def after_data(
    target: str, found: Inspection, where: tuple[object, ...] = (), *, rgb: bool = True
) -> Iterator[str]:
    """Suggest what to do with data: use pretrained weights if there are any, else train.

    Args:
        target: Name or folder of the data.
        found: Result of the inspection.
        where: Options that make other commands use the same images.
        rgb: Whether images have three channels; for other images only training adapts pretrained weights.
    """
    out = Path("runs") / (Path(target.rpartition(":")[2]).name or "first")
    train = shell_words("cacr", "pretrain", target, *where, "--out", out, "--time", "30m")
    at_hand = pretrained_at_hand()
    if not at_hand and found.count >= FEW_IMAGES:
        yield f"what next? Train an encoder on these images: {train}"
        return
    encoder, fetch = (at_hand[0], ()) if at_hand else (PRETRAINED, ("--download",))
    known = "Pretrained weights are available" if at_hand else "Pretrained weights are downloaded once"
    further = f"{train} {shell_words('--init', encoder, *fetch)}"
    if rgb:
        group = shell_words("cacr", "group", encoder, target, *where, "--out", "groups.csv", *fetch)
        yield f"what next? {known}: group these images with them: {group}"
        yield f"or continue training from them: {further}"
    else:
        yield f"what next? {known}: continue training from them, which adapts their first layer: {further}"
