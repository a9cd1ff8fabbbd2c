"""What an encoder without a run is, and what became of its weights."""

from collections.abc import Iterator

from cacr.evaluation.guest import Guest, is_guest
from cacr.reading.files import any_path, kind_of
from cacr.reporting.next_step import guest_lines

SUFFIXES = frozenset({".safetensors", ".pth", ".pt", ".tar", ".ckpt", ".bin", ".torch"})
"""How files of weights end: other files are data, or nothing."""


def names_encoder(target: str) -> bool:
    """Whether a text names an encoder that no run trained, and no data."""
    path = any_path(target)
    return is_guest(target) and (kind_of(path) != "file" or path.suffix.lower() in SUFFIXES)


def examine_encoder(target: str) -> Iterator[str]:
    """What the encoder is, what was loaded, left over and missing, and what to do with it.

    Raises:
        UserError: it cannot be loaded.
    """
    guest = Guest.visit(target)
    info, loaded = guest.info, guest.encoder.loaded
    count = sum(parameter.numel() for parameter in guest.encoder.backbone.parameters())
    yield f"encoder {guest.name}: {info.encoder}, {count / 1e6:.1f} M weights, {info.feature_dim:,} features an image"
    mean, std = (" ".join(f"{value:.4g}" for value in values) for values in (info.mean, info.std))
    resized = info.resize or info.image_size
    yield f"images: {info.image_size} px, after a resize to {resized}; mean {mean}, deviation {std}"
    if loaded is not None:
        yield f"weights: {loaded.text}"
    yield from guest_lines(guest)
