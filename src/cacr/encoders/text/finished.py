"""Load a CLIP of other software as an image-text encoder: from a folder, or by its name in open_clip."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from cacr.encoders.encoder import Encoder, EncoderInfo, LoadedWeights
from cacr.encoders.text.folder_tower import TOKENISER, WEIGHTS, tokeniser
from cacr.encoders.text.side import TextSide
from cacr.encoders.text.tower import TextTower, Tokens
from cacr.errors import MissingExtraError, UserError
from cacr.reading.documents import read_json, read_json_if_any
from cacr.reading.files import kind_of, read_text
from cacr.reading.foreign import foreign
from cacr.reading.tensors import misfit, read_safetensors

OPEN_CLIP_CONFIG = "open_clip_config.json"
OPEN_CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", WEIGHTS)
MOST_SCALE = 100.0

_JSON = TypeAdapter(dict[str, Any])
_STATISTICS = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
"""Default mean and standard deviation of CLIP's images."""


def is_finished_clip(folder: Path) -> bool:
    """Whether a folder contains a CLIP."""
    if kind_of(folder / OPEN_CLIP_CONFIG) == "file":
        return True
    config = folder / "config.json"
    return kind_of(config) == "file" and read_json(config, _JSON).get("model_type") == "clip"


def load_finished(folder: Path) -> Encoder:
    """The CLIP in a folder.

    Raises:
        UserError: a file is missing or damaged, is a pickle, or describes an unknown model.
    """
    return (
        _open_clip_folder(folder) if kind_of(folder / OPEN_CLIP_CONFIG) == "file" else _hugging_face(folder)
    )


def load_open_clip(name: str, *, download: bool) -> Encoder:
    """A model of open_clip by its name, ``NAME`` or ``NAME@WEIGHTS`` (``ViT-B-32@laion2b_s34b_b79k``).

    Raises:
        UserError: open_clip has no such model, or its weights must not be downloaded.
    """
    open_clip = _import("open_clip")
    model, _, weights = name.partition("@")
    known = [tag for each, tag in open_clip.list_pretrained() if each == model]
    if not known or (weights and weights not in known):
        having = f"its weights are {', '.join(known)}" if known else "see open_clip.list_pretrained()"
        raise UserError(f"openclip:{name}: open_clip has no pretrained model of this name; {having}")
    if not download:
        raise UserError(f"openclip:{name} downloads weights: allow it with --download")
    with foreign(f"openclip:{name} cannot be loaded"):
        made = open_clip.create_model(model, pretrained=weights or known[-1])
    config = open_clip.get_model_preprocess_cfg(made)
    tower = _OpenClipTower(made, _import("open_clip").get_tokenizer(model))
    return _assembled(
        f"openclip:{name}",
        made.visual,
        tower,
        config,
        scale=made.logit_scale,
        loaded_from=f"open_clip's {name}",
    )


def _open_clip_folder(folder: Path) -> Encoder:
    open_clip = _import("open_clip")
    whole = read_json(folder / OPEN_CLIP_CONFIG, _JSON)
    config, preprocess = whole.get("model_cfg"), whole.get("preprocess_cfg") or {}
    if not isinstance(config, dict) or not isinstance(config.get("text_cfg"), dict):
        raise UserError(
            f"{folder / OPEN_CLIP_CONFIG} has no model_cfg with a text_cfg: does it belong to open_clip?"
        )
    text = config["text_cfg"]
    if "hf_model_name" in text or "hf_tokenizer_name" in text:
        raise UserError(
            f"{folder} has a text encoder of Hugging Face, which open_clip would download: use a CLIP with "
            "open_clip's own text transformer, or a Hugging Face folder"
        )
    file = next((folder / name for name in OPEN_CLIP_WEIGHTS if kind_of(folder / name) == "file"), None)
    if file is None:
        raise UserError(
            f"{folder} has no {OPEN_CLIP_WEIGHTS[0]}: pickled weights (.bin, .pt) are not read, for safety"
        )

    if isinstance(seeing := config.get("vision_cfg"), dict) and "timm_model_pretrained" in seeing:
        seeing["timm_model_pretrained"] = (
            False  # otherwise timm would download weights that are replaced anyway
        )

    def build() -> nn.Module:
        with foreign(f"{folder / OPEN_CLIP_CONFIG} does not describe a CLIP that open_clip can build"):
            return cast(nn.Module, open_clip.CLIP(**{"output_dict": False} | config))

    model: Any = _filled(build, read_safetensors(file), file)
    context = int(text.get("context_length", 77))
    tower = _OpenClipTower(model, open_clip.tokenizer.SimpleTokenizer(context_length=context))
    loaded_from = f"{file} (a CLIP of open_clip)"
    return _assembled(
        f"openclip:{folder.name}",
        model.visual,
        tower,
        preprocess,
        scale=model.logit_scale,
        loaded_from=loaded_from,
    )


def _hugging_face(folder: Path) -> Encoder:
    transformers = _import("transformers")
    missing = [name for name in (WEIGHTS, TOKENISER) if kind_of(folder / name) != "file"]
    if missing:
        raise UserError(
            f"{folder} is an incomplete CLIP: it has no {' and no '.join(missing)} (pickles are not read)"
        )
    with foreign(f"{folder / 'config.json'} does not describe a CLIP"):
        config = transformers.CLIPConfig.from_pretrained(folder, local_files_only=True)

    def build() -> nn.Module:
        with foreign(f"{folder / 'config.json'} does not describe a CLIP that transformers can build"):
            return cast(nn.Module, transformers.CLIPModel(config))

    model: Any = _filled(build, read_safetensors(folder / WEIGHTS), folder / WEIGHTS)
    reader = tokeniser(read_text(folder / TOKENISER), folder)
    tower = _HuggingFaceTower(model, reader, config.text_config)
    given = read_json_if_any(folder / "preprocessor_config.json", _JSON) or {}
    preprocess = {
        "mean": given.get("image_mean"),
        "std": given.get("image_std"),
        "size": config.vision_config.image_size,
        "interpolation": "bicubic",
    }
    visual = _HuggingFaceImages(model)
    loaded_from = f"{folder / WEIGHTS} (a CLIP of Hugging Face)"
    return _assembled(
        f"clip:{folder.name}", visual, tower, preprocess, scale=model.logit_scale, loaded_from=loaded_from
    )


class _OpenClipTower(TextTower):
    """The text encoder of an open_clip model; its features are already embeddings."""

    def __init__(self, model: Any, reader: Any) -> None:
        super().__init__()
        self.model, self._reader = model, reader
        self.context = int(reader.context_length)
        self.dim = int(self.encode(["a"]).shape[1])

    def tokenise(self, sentences: Sequence[str]) -> Tokens:
        """Tokenise as open_clip does."""
        encode = getattr(self._reader, "encode", None)
        longest = self.context - 2
        cut = 0 if encode is None else sum(len(encode(sentence)) > longest for sentence in sentences)
        return Tokens(self._reader(list(sentences)), cut)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embeddings (n, dim)."""
        return cast(Tensor, self.model.encode_text(tokens))

    def describe(self) -> dict[str, object]:
        """Empty: its own folder describes it."""
        return {"kind": "open_clip", "context": self.context}

    def save(self, folder: Path) -> None:
        """Does nothing: a CLIP of other software stays where it is."""


class _HuggingFaceTower(TextTower):
    """The text encoder of a Hugging Face CLIP; its features are already embeddings."""

    def __init__(self, model: Any, reader: Any, config: Any) -> None:
        super().__init__()
        self.pad = int(config.eos_token_id)
        self.text, self.projection, self._reader = model.text_model, model.text_projection, reader
        self.context, self.dim = int(config.max_position_embeddings), int(model.text_projection.out_features)
        reader.enable_truncation(self.context)
        # tokens after the end of a sentence are ignored
        reader.enable_padding(length=self.context, pad_id=self.pad)

    @property
    def tokeniser_file(self) -> str:
        """The content of ``tokenizer.json``."""
        return str(self._reader.to_str())

    def tokenise(self, sentences: Sequence[str]) -> Tokens:
        """Tokenise with the folder's tokeniser, padded to the full context."""
        found = self._reader.encode_batch(list(sentences))
        ids = torch.tensor([each.ids for each in found], dtype=torch.long)
        return Tokens(ids, sum(bool(each.overflowing) for each in found))

    def forward(self, tokens: Tensor) -> Tensor:
        """Embeddings (n, dim)."""
        return cast(Tensor, self.projection(self.text(input_ids=tokens).pooler_output))

    def describe(self) -> dict[str, object]:
        """Empty: its own folder describes it."""
        return {"kind": "hugging_face", "context": self.context}

    def save(self, folder: Path) -> None:
        """Does nothing: a CLIP of other software stays where it is."""


class _HuggingFaceImages(nn.Module):
    """The image encoder of a Hugging Face CLIP."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vision, self.projection = model.vision_model, model.visual_projection

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings (n, dim) of normalised images."""
        return cast(Tensor, self.projection(self.vision(pixel_values=images).pooler_output))


def _filled(build: Any, stored: Mapping[str, Tensor], file: Path) -> nn.Module:
    """A model with the weights of a file, which are compared with it before memory is allocated."""
    with torch.device("meta"):
        expected = build().state_dict()
    held = {name: tensor for name, tensor in stored.items() if not name.endswith("position_ids")}
    if wrong := misfit(
        {name: expected[name] for name in expected if not name.endswith("position_ids")}, held
    ):
        raise UserError(f"{file} does not fit the configuration next to it: {wrong}")
    model: nn.Module = build()
    model.load_state_dict(held, strict=False)
    return model


def _assembled(
    name: str,
    visual: nn.Module,
    tower: TextTower,
    preprocess: Mapping[str, Any],
    *,
    scale: Tensor,
    loaded_from: str,
) -> Encoder:
    """An encoder whose features are CLIP's image embeddings."""
    size: Any = preprocess.get("size") or getattr(visual, "image_size", 224)
    side = int(size[0] if isinstance(size, list | tuple) else size)
    mean, std = (
        _three(preprocess.get(key), default)
        for key, default in zip(("mean", "std"), _STATISTICS, strict=True)
    )
    kind: Literal["bilinear", "bicubic"] = (
        "bilinear" if preprocess.get("interpolation") == "bilinear" else "bicubic"
    )
    info = EncoderInfo(name, side, tower.dim, resize=side, mean=mean, std=std, interpolation=kind)
    encoder = Encoder(visual, info)
    factor = min(float(scale.detach().exp()), MOST_SCALE)
    encoder.load_text = lambda: TextSide(tower.eval(), nn.Identity(), nn.Identity(), factor)
    encoder.loaded = LoadedWeights(loaded_from)
    return encoder.eval()


def _three(values: Any, otherwise: tuple[float, float, float]) -> tuple[float, float, float]:
    if (
        isinstance(values, list | tuple)
        and len(values) == 3
        and all(isinstance(x, int | float) for x in values)
    ):
        return cast(tuple[float, float, float], tuple(float(x) for x in values))
    return otherwise


def _import(package: str) -> Any:
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        raise MissingExtraError("a CLIP of other software", "text") from None
