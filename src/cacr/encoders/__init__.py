"""Encoders: images (n, 3, s, s) to features (n, feature_dim), their heads, and their files."""

from cacr.encoders import resnet, small_alexnet  # noqa: F401  (they register themselves)
from cacr.encoders.as_timm import timm_arguments
from cacr.encoders.batch_norm import (
    fix_statistics,
    held_statistics,
    normalise_per_view,
    share_statistics,
    shares_statistics,
)
from cacr.encoders.build import (
    build_described,
    build_encoder,
    feature_dim_of,
    has_weights_rule,
    is_transformer,
    require_encoder,
)
from cacr.encoders.encoder import Encoder, EncoderInfo, LoadedWeights
from cacr.encoders.files import save_encoder
from cacr.encoders.first_layer import cut_patches, filters_for, first_layer, set_filters
from cacr.encoders.head_file import save_head1
from cacr.encoders.heads import HEADS, KEPT_FIRST_LAYERS, PREDICTORS, build_head, build_predictor, keeps_apart
from cacr.encoders.initial_weights import load_weights
from cacr.encoders.layers import freeze_stages, rates_of
from cacr.encoders.origins import Place, is_fetched, load_encoder, locate
from cacr.encoders.reader import Reader, ReaderKind
from cacr.encoders.registry import ENCODERS
from cacr.encoders.vit import fix_positions, freeze_patches, patch_problem

__all__ = [
    "ENCODERS",
    "HEADS",
    "KEPT_FIRST_LAYERS",
    "PREDICTORS",
    "Encoder",
    "EncoderInfo",
    "LoadedWeights",
    "Place",
    "Reader",
    "ReaderKind",
    "build_described",
    "build_encoder",
    "build_head",
    "build_predictor",
    "cut_patches",
    "feature_dim_of",
    "filters_for",
    "first_layer",
    "fix_positions",
    "fix_statistics",
    "freeze_patches",
    "freeze_stages",
    "has_weights_rule",
    "held_statistics",
    "is_fetched",
    "is_transformer",
    "keeps_apart",
    "load_encoder",
    "load_weights",
    "locate",
    "normalise_per_view",
    "patch_problem",
    "rates_of",
    "require_encoder",
    "save_encoder",
    "save_head1",
    "set_filters",
    "share_statistics",
    "shares_statistics",
    "timm_arguments",
]
