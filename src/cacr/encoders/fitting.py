"""Load the tensors of a file into an encoder, and report which were used."""

from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from cacr.encoders.encoder import Encoder, LoadedWeights
from cacr.encoders.layouts import find_backbone, preference
from cacr.errors import UserError

COUNTER = "num_batches_tracked"
"""Counter of batch norm, which no feature depends on: old files do not have it."""


def fill(encoder: Encoder, tensors: Mapping[str, Tensor], origin: str) -> LoadedWeights:
    """Replace all weights of an encoder by those of a file.

    Names may be those of the encoder with any prefix, those of a layout in :mod:`cacr.encoders.layouts`, or any
    others, if all tensors of the file have the kinds and shapes of the encoder's tensors in the same order.

    Args:
        encoder: Changed in place.
        tensors: Tensors of the file, in its order.
        origin: The file, for messages.

    Raises:
        UserError: a tensor of the encoder is missing, has another shape, or is not finite.
    """
    sources, how = match(encoder.backbone.state_dict(), tensors)
    return put(encoder, tensors, sources, f"{origin}{how}")


def match(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> tuple[dict[str, str], str]:
    """Map an encoder's names to those of a file; also describe how they were matched, to follow the file name."""
    found = find_backbone(tensors)
    if found is not None and len(own.keys() & found.sources.keys()) >= len(own) / 2:
        return {name: file for name, file in found.sources.items() if name in own}, f" ({found.software})"
    prefix = common_prefix(own, tensors)
    sources = {name: prefix + name for name in own if prefix + name in tensors}
    if len(sources) < len(own) / 2 and (ordered := _in_order(own, tensors)):
        return ordered, " (other names, but the same kinds and shapes in the same order)"
    return sources, f" (under {prefix})" if prefix else ""


def put(
    encoder: Encoder, tensors: Mapping[str, Tensor], sources: Mapping[str, str], origin: str
) -> LoadedWeights:
    """Replace all weights of an encoder, with a table from its names to those in the file.

    Raises:
        UserError: as in :func:`fill`.
    """
    own: dict[str, Tensor] = encoder.backbone.state_dict()
    given = {
        name: tensors[file]
        for name, file in sources.items()
        if name in own and tensors[file].shape == own[name].shape
    }
    missing = tuple(name for name in own if name not in given)
    lacking = [name for name in missing if not name.endswith(COUNTER)]
    if lacking:
        other = [name for name in lacking if name in sources]
        shapes = f"; {other[0]} has the shape {tuple(tensors[sources[other[0]]].shape)}" if other else ""
        raise UserError(
            f"{origin} lacks {len(lacking):,} of the {len(own):,} tensors of {encoder.info.encoder}, such as "
            f"{lacking[0]}{shapes}: does it belong to another encoder, or is it incomplete?"
        )
    require_finite(given, origin)
    encoder.backbone.load_state_dict(given, strict=False)
    used = {sources[name] for name in given}
    return LoadedWeights(origin, tuple(given), missing, tuple(name for name in tensors if name not in used))


def require_finite(tensors: Mapping[str, Tensor], origin: str) -> None:
    """Refuse weights that are not finite.

    Raises:
        UserError: names one.
    """
    broken = [
        name
        for name, value in tensors.items()
        if value.is_floating_point() and not bool(torch.isfinite(value).all())
    ]
    if broken:
        raise UserError(
            f"{origin}: {len(broken)} tensors are not finite, such as {broken[0]}: its training diverged"
        )


def common_prefix(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    """The prefix of most of the encoder's names in the file; if there are several, that of the first layout."""
    counts = Counter(
        long.removesuffix(name) for name in own for long in given if long == name or long.endswith(f".{name}")
    )
    return max(counts, key=lambda prefix: (counts[prefix], -preference(prefix), -len(prefix)), default="")


def _in_order(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> dict[str, str]:
    """Names in the file of the encoder's tensors, if they fit one by one, before a classifier."""
    fits = len(given) >= len(own) and all(
        ours.shape == theirs.shape and name.rpartition(".")[2] == file.rpartition(".")[2]
        for (name, ours), (file, theirs) in zip(own.items(), given.items(), strict=False)
    )
    return dict(zip(own, given, strict=False)) if fits else {}
