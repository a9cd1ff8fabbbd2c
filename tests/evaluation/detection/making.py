"""Encoders, detectors and objects that are small enough to be trained in a test."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cacr.data import open_source
from cacr.data.annotated import AnnotatedSource, Marked, Objects, objects_of
from cacr.encoders import Encoder, build_encoder
from cacr.evaluation.detection.detector import Shape, build_detector
from cacr.evaluation.detection.found import Found
from cacr.evaluation.detection.recipes import DETECTION_RECIPES, DetectionRecipe

TINY = replace(
    DETECTION_RECIPES["mini"],
    batch_size=2,
    steps=4,
    sizes=(32, 48),
    test_size=48,
    max_size=64,
    proposals=8,
    channels=8,
    warmup=1,
)


def encoder_of(name: str = "small_alexnet", size: int = 32, width: float = 0.05) -> Encoder:
    """A random encoder, the same at every call."""
    torch.manual_seed(0)
    encoder = build_encoder(name, image_size=size, width=width if name == "small_alexnet" else 1.0)
    encoder.info = replace(encoder.info, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3))
    return encoder.eval()


def tiny_detector(recipe: DetectionRecipe = TINY, *, name: str = "small_alexnet", **shape: Any) -> Any:
    """A random detector, the same at every call."""
    torch.manual_seed(1)
    return build_detector(encoder_of(name), recipe, Shape(2, **shape))


def shapes_source(folder: Path, part: str = "train") -> AnnotatedSource:
    source = open_source(f"coco:{folder}", part=part)  # type: ignore[arg-type]
    assert isinstance(source, AnnotatedSource)
    return source


def objects(*boxes: tuple[float, ...], **flags: Any) -> Objects:
    """Objects of an image of 100 x 100 pixels: (class, left, top, right, bottom) each."""
    return objects_of(100, 100, [Marked((b[1], b[2], b[3], b[4]), int(b[0]), **flags) for b in boxes])


def found(*boxes: tuple[float, ...]) -> Found:
    """Detections: (class, score, left, top, right, bottom) each."""
    values = np.array(boxes, dtype=np.float32).reshape(-1, 6)
    return Found(values[:, 2:], values[:, 1], values[:, 0].astype(np.int64))
