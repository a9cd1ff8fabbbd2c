"""Load initial weights for a training."""

import os
from collections.abc import Mapping

from torch import Tensor

from cacr.encoders.checkpoints import read_tensors
from cacr.encoders.encoder import Encoder, LoadedWeights
from cacr.encoders.first_layer import first_layer
from cacr.encoders.fitting import match, require_finite
from cacr.encoders.origins import load_encoder, locate
from cacr.errors import UserError

LEAST = 0.5
"""Share of an encoder's weights that a file must have; the rest, such as another first layer, starts at random."""

POSITIONS = "pos_embed"


def load_weights(
    encoder: Encoder, source: str | os.PathLike[str], *, download: bool = False
) -> LoadedWeights:
    """Load trained weights into an encoder; tensors that do not fit keep their random values.

    Position embeddings of another image size are interpolated, and a first layer for RGB images is adapted to other
    channels, as timm does.

    Args:
        encoder: Changed in place.
        source: As in :func:`cacr.encoders.load_encoder`, or a file of tensors with the encoder's own names and any
            prefix, such as ``module.backbone.``.
        download: Allow the download of timm's pretrained weights for ``timm:NAME``.

    Raises:
        UserError: the file cannot be read, or less than half of the encoder's weights fit.
    """
    place, own = locate(source), encoder.backbone.state_dict()
    if place.kind == "checkpoint":
        assert place.path is not None
        given, origin = read_tensors(place.path), str(place.path)
        sources, how = match(own, given)
        origin += how
    else:
        donor = load_encoder(source, with_reader=False, download=download)
        given = donor.backbone.state_dict()
        sources = {name: name for name in given if name in own}
        origin = place.text if donor.loaded is None else donor.loaded.origin
    fitting = {name: given[file] for name, file in sources.items() if given[file].shape == own[name].shape}
    if POSITIONS in sources and POSITIONS not in fitting:
        fitting |= _interpolated(encoder, given[sources[POSITIONS]])
    fitting |= _adapted(encoder, {name: given[file] for name, file in sources.items() if name not in fitting})
    covered = sum(own[name].numel() for name in fitting) / sum(tensor.numel() for tensor in own.values())
    if covered < LEAST:
        raise UserError(
            f"{origin} has only {covered:.0%} of the weights of {encoder.info.encoder} for "
            f"{encoder.info.image_size} pixels and width {encoder.info.width:g}: does it belong to another encoder?"
        )
    require_finite(fitting, origin)
    encoder.backbone.load_state_dict(fitting, strict=False)
    used = {sources[name] for name in fitting}
    return LoadedWeights(
        origin,
        tuple(fitting),
        tuple(name for name in own if name not in fitting),
        tuple(name for name in given if name not in used),
    )


def _adapted(encoder: Encoder, others: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Adapt the first layer of weights for RGB images to other channels: summed or repeated, as timm does."""
    from timm.models._manipulate import adapt_input_conv

    channels = encoder.info.channels
    if channels == 3:
        return {}
    layer = first_layer(encoder.backbone, channels)
    own = encoder.backbone.state_dict()
    for name, tensor in others.items():
        same = own[name].data_ptr() == layer.weight.data_ptr()
        if same and tensor.ndim == 4 and tensor.shape[1] == 3 and tensor.shape[2:] == own[name].shape[2:]:
            return {name: adapt_input_conv(channels, tensor)}
    return {}


def _interpolated(encoder: Encoder, table: Tensor) -> Mapping[str, Tensor]:
    """A transformer's position embeddings (1, tokens, dim), interpolated to its grid, if there is one."""
    from timm.layers.pos_embed import resample_abs_pos_embed

    own = encoder.backbone.state_dict()[POSITIONS]
    grid = getattr(getattr(encoder.backbone, "patch_embed", None), "grid_size", None)
    if grid is None or table.ndim != 3 or table.shape[2] != own.shape[2]:
        return {}
    before = own.shape[1] - grid[0] * grid[1]
    resampled = resample_abs_pos_embed(table, new_size=list(grid), num_prefix_tokens=before)
    return {POSITIONS: resampled} if resampled.shape == own.shape else {}
