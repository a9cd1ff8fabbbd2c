"""Load an encoder by name, with weights of any origin.

runs/photos                  a run folder, or a file that `cacr export` wrote
timm:NAME                    timm's architecture: random weights, or with a download its pretrained ones
timm:NAME@FILE               the same with weights from a file
FOLDER                       config.json and model.safetensors, as written by timm and model hubs
FOLDER                       a CLIP of open_clip or Hugging Face (safetensors): an image-text encoder
openclip:NAME[@WEIGHTS]      a CLIP of open_clip, with a download
FILE                         a checkpoint of other software, recognised by its names (see `layouts`)
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import TypeAdapter
from torch import Tensor

from cacr.encoders.architectures import Architecture, architecture_of
from cacr.encoders.build import build_encoder, require_encoder
from cacr.encoders.checkpoints import read_tensors
from cacr.encoders.encoder import Encoder, LoadedWeights
from cacr.encoders.files import WEIGHTS, load_stored
from cacr.encoders.fitting import fill, put
from cacr.encoders.hugging_face import PREPARATION, heads_of, prepared_by
from cacr.encoders.layouts import TRANSFORMERS, Backbone, find_backbone
from cacr.encoders.text.finished import is_finished_clip, load_finished, load_open_clip
from cacr.encoders.timm_models import preparation_of
from cacr.errors import UserError
from cacr.reading.documents import read_json
from cacr.reading.files import any_path, kind_of, require_file

TIMM, OPEN_CLIP = "timm:", "openclip:"
CONFIG = "config.json"
HUB_WEIGHTS = ("model.safetensors", "pytorch_model.bin")

Kind = Literal["stored", "timm", "hub", "clip", "openclip", "checkpoint"]


@dataclass(frozen=True)
class Place:
    """The location of an encoder.

    Attributes:
        text: The text as it was given.
        kind: ``stored`` (by cacr), ``timm``, ``hub`` (a folder that timm reads), ``clip`` (a folder of a CLIP),
            ``openclip``, or ``checkpoint``.
        path: The file or folder of the weights; None if there is none.
        model: timm's name; empty if the weights show the architecture.
    """

    text: str
    kind: Kind
    path: Path | None
    model: str = ""

    @property
    def file(self) -> Path | None:
        """The weights file; None if there is none."""
        if self.kind == "stored" and self.path is not None and kind_of(self.path) == "folder":
            return self.path / WEIGHTS
        if self.kind == "clip":
            return None
        return _hub_weights(self.path) if self.kind == "hub" and self.path is not None else self.path

    @property
    def name(self) -> str:
        """Its name in comparisons, and in the name of a folder."""
        if self.path is None:
            return f"{self.kind}-{self.model}"
        whole = self.path.resolve()
        if kind_of(whole) == "folder":
            return whole.name
        return whole.parent.name if whole.name in (WEIGHTS, *HUB_WEIGHTS) else self.path.stem


def is_fetched(text: str) -> bool:
    """Whether the weights must be downloaded: pretrained weights of timm or open_clip, without a file."""
    return text.startswith(OPEN_CLIP) or (text.startswith(TIMM) and "@" not in text)


def locate(text: str | os.PathLike[str]) -> Place:
    """Find what a text names, without reading it.

    Raises:
        UserError: there is nothing with this name, or nothing that could be an encoder.
    """
    text = os.fspath(text)
    if text.startswith(TIMM):
        model, at, file = text.removeprefix(TIMM).partition("@")
        if not model or (at and not file):
            raise UserError(f"{text}: write timm:NAME, or timm:NAME@FILE with a weights file")
        path = any_path(file) if at else None
        if path is not None:
            require_file(path)
        return Place(text, "timm", path, model)
    if text.startswith(OPEN_CLIP):
        return Place(text, "openclip", None, text.removeprefix(OPEN_CLIP))
    path = any_path(text)
    kind = kind_of(path)
    if kind is None:
        raise UserError(
            f"there is no run folder or weights file {path}; for an architecture of timm write timm:NAME, with weights "
            "timm:NAME@FILE"
        )
    if kind == "folder":
        if kind_of(path / WEIGHTS) is not None:
            return Place(text, "stored", path)
        if is_finished_clip(path):
            return Place(text, "clip", path)
        if kind_of(path / CONFIG) is None:
            return Place(text, "stored", path)
        ours = path / HUB_WEIGHTS[0]  # with the description of `cacr export --to hub` next to it
        described = kind_of(ours.with_suffix(".json")) is not None and kind_of(ours) is not None
        return Place(text, "stored", ours) if described else Place(text, "hub", path)
    require_file(path)
    described = path.suffix.lower() == ".safetensors" and kind_of(path.with_suffix(".json")) is not None
    return Place(text, "stored" if described else "checkpoint", path)


def load_encoder(
    text: str | os.PathLike[str], *, with_reader: bool = True, download: bool = False
) -> Encoder:
    """Load an encoder in evaluation mode, with its preprocessing.

    Args:
        text: A run folder or an exported file; ``timm:NAME`` or ``timm:NAME@FILE``; a folder with ``config.json`` and
            ``model.safetensors``, as written by timm and model hubs; the folder of a CLIP, or ``openclip:NAME``; or a
            checkpoint of MoCo, SimCLR, BYOL, SimSiam, SwAV, Barlow Twins, DINO, lightly, solo-learn or the paper's
            authors, recognised by its names.
        with_reader: Also load the reader of an encoder of cacr; otherwise a damaged one does not matter.
        download: Allow the download of timm's pretrained weights for ``timm:NAME``; otherwise its weights are random.

    Returns:
        The encoder. For weights of other software, ``encoder.loaded.text`` says what was loaded, unused and missing.

    Raises:
        UserError: says what does not fit.

    Example:
        >>> encoder = load_encoder("runs/demo")                                       # doctest: +SKIP
        >>> features = encoder(encoder.preprocess("photo.jpg")[None])                 # doctest: +SKIP
    """
    place = locate(text)
    if place.kind == "stored":
        assert place.path is not None
        return load_stored(place.path, with_reader=with_reader)
    with torch.random.fork_rng(
        devices=[]
    ):  # keep the caller's random state; random weights are the same each time
        torch.manual_seed(0)
        return _LOADERS[place.kind](place, download).eval()


def _timm(place: Place, download: bool) -> Encoder:
    require_encoder(place.model)
    if place.path is not None:
        encoder = _prepared(place.model)
        encoder.loaded = fill(encoder, read_tensors(place.path), str(place.path))
        return encoder
    encoder = _prepared(place.model, pretrained=download)
    found = (
        "pretrained weights"
        if download
        else "random weights; use --download for pretrained ones, if there are any"
    )
    encoder.loaded = LoadedWeights(f"timm's {place.model} with {found}")
    return encoder


def _checkpoint(place: Place, download: bool) -> Encoder:
    assert place.path is not None
    tensors = read_tensors(place.path)
    found = find_backbone(tensors)
    if found is None:
        raise UserError(
            f"{place.path} has {len(tensors):,} tensors, such as {next(iter(tensors))}, but their names fit no known "
            "architecture: give its name, timm:NAME@FILE"
        )
    return _filled(place.path, tensors, found, _architecture(place.path, found))


def _architecture(file: Path, found: Backbone) -> Architecture:
    try:
        return architecture_of(found)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def _filled(file: Path, tensors: Mapping[str, Tensor], found: Backbone, built: Architecture) -> Encoder:
    """An encoder with the tensors of a backbone found in a file."""
    encoder = _build(built)
    told = f"{file} ({found.software}; {built.encoder}, assumed: {built.assumed})"
    encoder.loaded = put(encoder, tensors, found.sources, told)
    return encoder


def _build(found: Architecture) -> Encoder:
    encoder = build_encoder(
        found.encoder, image_size=found.image_size, width=found.width, options=found.options
    )
    mean, std = found.statistics
    encoder.info = replace(encoder.info, resize=found.resize, mean=mean, std=std)
    return encoder


@dataclass(frozen=True)
class _Config:
    """The parts of a ``config.json`` in timm's layout that are used."""

    architecture: str
    pretrained_cfg: dict[str, Any] | None = None


_CONFIG, _ANY = TypeAdapter(_Config), TypeAdapter(dict[str, Any])


def _hub(place: Place, download: bool) -> Encoder:
    assert place.path is not None
    file = place.path / CONFIG
    whole = read_json(file, _ANY)
    if "architecture" not in whole:
        return _hugging_face(place, whole)
    config = read_json(file, _CONFIG)
    require_encoder(config.architecture)
    weights = _hub_weights(place.path)
    encoder = _prepared(config.architecture, described=config.pretrained_cfg)
    encoder.loaded = fill(encoder, read_tensors(weights), f"{weights} (timm's {config.architecture})")
    return encoder


def _hugging_face(place: Place, config: Mapping[str, Any]) -> Encoder:
    """A plain vision transformer of Hugging Face's transformers, which is the same as timm's with other names."""
    assert place.path is not None
    weights = _hub_weights(place.path)
    tensors = read_tensors(weights)
    found = find_backbone(tensors)
    if found is None or found.software != TRANSFORMERS:
        kind = f" (it says model_type {config['model_type']!r})" if "model_type" in config else ""
        raise UserError(
            f"{place.path / CONFIG} names no architecture of timm{kind}: only folders of timm and plain vision "
            "transformers of Hugging Face (ViT, DINOv2) are read; or give its name, timm:NAME@FILE"
        )
    built = _architecture(weights, found)
    heads = heads_of(config, found.tensors["patch_embed.proj.weight"].shape[0])
    known = kind_of(place.path / PREPARATION) is not None
    assumed = f"the values of {PREPARATION}" if known else built.assumed
    encoder = _filled(weights, tensors, found, replace(built, options=heads, assumed=assumed))
    encoder.info = prepared_by(place.path, encoder.info)
    return encoder


def _hub_weights(folder: Path) -> Path:
    for name in HUB_WEIGHTS:
        if kind_of(folder / name) is not None:
            return folder / name
    raise UserError(f"{folder} has a {CONFIG}, but no weights: {' or '.join(HUB_WEIGHTS)}")


def _prepared(name: str, *, pretrained: bool = False, described: dict[str, Any] | None = None) -> Encoder:
    """A timm model with timm's own preprocessing, or that of its ``pretrained_cfg``."""
    wanted = preparation_of(name, described)
    encoder = build_encoder(name, image_size=wanted.image_size, pretrained=pretrained)
    encoder.info = replace(
        encoder.info,
        resize=wanted.resize,
        interpolation=wanted.interpolation,
        mean=wanted.mean,
        std=wanted.std,
    )
    return encoder


def _clip(place: Place, download: bool) -> Encoder:
    assert place.path is not None
    return load_finished(place.path)


_LOADERS = {
    "timm": _timm,
    "hub": _hub,
    "clip": _clip,
    "openclip": lambda place, download: load_open_clip(place.model, download=download),
    "checkpoint": _checkpoint,
}
