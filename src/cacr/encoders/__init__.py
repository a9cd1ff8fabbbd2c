"""Encoders: images (n, 3, s, s) to features (n, feature_dim), their heads, and their files."""

from cacr.encoders import resnet, small_alexnet  # noqa: F401  (they register themselves)
from cacr.encoders.as_timm import timm_arguments
from cacr.encoders.batch_norm import held_statistics, normalise_per_view, share_statistics, shares_statistics
from cacr.encoders.build import build_encoder, has_weights_rule, is_transformer, require_encoder
from cacr.encoders.encoder import Encoder, EncoderInfo
from cacr.encoders.files import load_encoder, save_encoder
from cacr.encoders.first_layer import cut_patches, filters_for, first_layer, set_filters
from cacr.encoders.heads import HEADS, build_head, build_predictor
from cacr.encoders.initial_weights import LoadedWeights, load_weights
from cacr.encoders.reader import Reader, ReaderKind
from cacr.encoders.registry import ENCODERS
from cacr.encoders.vit import fix_positions, freeze_patches, patch_problem

__all__ = [
    "ENCODERS",
    "HEADS",
    "Encoder",
    "EncoderInfo",
    "LoadedWeights",
    "Reader",
    "ReaderKind",
    "build_encoder",
    "build_head",
    "build_predictor",
    "cut_patches",
    "filters_for",
    "first_layer",
    "fix_positions",
    "freeze_patches",
    "has_weights_rule",
    "held_statistics",
    "is_transformer",
    "load_encoder",
    "load_weights",
    "normalise_per_view",
    "patch_problem",
    "require_encoder",
    "save_encoder",
    "set_filters",
    "share_statistics",
    "shares_statistics",
    "timm_arguments",
]
