"""Build the networks of a run: the encoder with its initial weights, head and predictor, in their framework."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cacr.config import ResolvedSettings
from cacr.encoders import (
    Encoder,
    build_encoder,
    build_head,
    build_predictor,
    first_layer,
    fix_positions,
    fix_statistics,
    freeze_patches,
    freeze_stages,
    is_fetched,
    is_transformer,
    load_weights,
    set_filters,
)
from cacr.encoders.heads import default_hidden
from cacr.frameworks import FRAMEWORKS, Framework, describe_chunks
from cacr.losses import OBJECTIVES
from cacr.training.settings.continued import TIMM
from cacr.views import PRESETS


class Built(NamedTuple):
    """A framework with its networks, and notes for the user on how it was built."""

    method: Framework
    notes: tuple[str, ...]


Filters = Callable[[nn.Module], Tensor]
"""The filters of the first layer of a backbone at the start."""


def build_method(
    settings: ResolvedSettings, init: str | None = None, filters: Filters | None = None
) -> Built:
    """Build the framework with its encoder and objective; the random weights depend only on the seed.

    Args:
        settings: settings of the run.
        init: initial weights of the encoder: a run, a weights file, ``timm``, or None for random weights.
        filters: initial filters of a first layer that is not random; None if weights are loaded afterwards.
    """
    torch.manual_seed(settings.seed)
    encoder, notes = _build_encoder(settings, init)
    if settings.first_layer != "random":
        layer = first_layer(encoder.backbone, settings.channels)
        given = layer.weight if filters is None else filters(encoder.backbone)
        set_filters(layer, given, trained=settings.first_layer == "whitened")
    hidden = hidden_width(settings, encoder)
    head = build_head(settings.head, encoder.feature_dim, settings.dim, hidden)
    objective = OBJECTIVES[settings.objective](**settings.objective_options)
    objective.seed = settings.seed
    framework, options = FRAMEWORKS[settings.framework], dict(settings.framework_options)
    if framework.has_predictor:
        options["predictor"] = build_predictor(
            settings.predictor, settings.dim, hidden, transformer=is_transformer(settings.encoder)
        )
    if framework.reads_captions:
        options["text_head"] = partial(build_head, settings.head, dim=settings.dim, hidden=hidden)
    method = framework(
        encoder,
        head,
        objective,
        batch_norm=settings.batch_norm,
        exchange=settings.exchange,
        encode_chunk=settings.encode_chunk,
        **options,
    )
    if settings.encode_chunk is not None:
        notes.append(describe_chunks(method, settings.encode_chunk))
    return Built(method, tuple(notes))


def hidden_width(settings: ResolvedSettings, encoder: Encoder) -> int:
    """Width of the hidden layers of head and predictor."""
    return settings.hidden or default_hidden(settings.head, encoder.feature_dim, settings.width)


def initial_weights_notes(settings: ResolvedSettings) -> list[str]:
    """Notes on the initial weights of a run, without building anything else.

    Weights that would have to be downloaded are not downloaded for this.

    Raises:
        UserError: the weights cannot be used.
    """
    if settings.init is None:
        return []
    fetched = settings.init == TIMM or is_fetched(settings.init)
    if fetched and settings.download:
        return ["the encoder starts from timm's weights, which are downloaded when the run starts"]
    with torch.random.fork_rng(devices=[]):
        return _build_encoder(settings, settings.init)[1]


def _build_encoder(settings: ResolvedSettings, init: str | None) -> tuple[Encoder, list[str]]:
    """The encoder, and notes on its initial weights."""
    encoder = build_encoder(
        settings.encoder,
        image_size=settings.image_size,
        width=settings.width,
        weights=settings.weights,
        any_size=PRESETS[settings.preset].local is not None,
        channels=settings.channels,
    )
    if settings.patches == "frozen":
        freeze_patches(encoder.backbone)
    if settings.positions == "fixed":
        fix_positions(encoder.backbone)
    if settings.statistics == "fixed":
        fix_statistics(encoder.backbone)
    if settings.frozen_stages:
        freeze_stages(encoder.backbone, settings.frozen_stages, settings.encoder)
    if init is None:
        return encoder, []
    found = load_weights(encoder, init, download=settings.download)
    missing = (
        f", {len(found.missing)} stay random ({', '.join(found.missing[:3])} ...)" if found.missing else ""
    )
    return encoder, [f"{len(found.loaded)} tensors of the encoder start from {found.origin}{missing}"]
