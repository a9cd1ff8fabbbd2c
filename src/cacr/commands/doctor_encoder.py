"""Describe an encoder that no run of cacr trained, and how its weights were loaded."""

from collections.abc import Iterator

from cacr.evaluation.guest import Guest, is_guest
from cacr.reading.files import any_path, kind_of
from cacr.reporting.next_step import guest_lines

SUFFIXES = frozenset({".safetensors", ".pth", ".pt", ".tar", ".ckpt", ".bin", ".torch"})
"""Suffixes of weight files; other files are data or unknown."""


def names_encoder(target: str) -> bool:
    """Whether a text names an encoder that no run trained, rather than data."""
    path = any_path(target)
    return is_guest(target) and (kind_of(path) != "file" or path.suffix.lower() in SUFFIXES)


def examine_encoder(target: str) -> Iterator[str]:
    """Lines about the encoder: what it is, which weights were loaded, unused or missing, and what to do next.

    Raises:
        UserError: it cannot be loaded.
    """
    guest = Guest.visit(target)
    info, loaded = guest.info, guest.encoder.loaded
    count = sum(parameter.numel() for parameter in guest.encoder.backbone.parameters())
    yield f"encoder {guest.name}: {info.encoder}, {count / 1e6:.1f} M weights, {info.feature_dim:,} features per image"
    mean, std = (" ".join(f"{value:.4g}" for value in values) for values in (info.mean, info.std))
    resized = info.resize or info.image_size
    yield f"images: resized to {resized} px, cropped to {info.image_size} px; mean {mean}, standard deviation {std}"
    if loaded is not None:
        yield f"weights: {loaded.text}"
    yield from guest_lines(guest)
