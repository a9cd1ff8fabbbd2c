"""A text encoder from a local Hugging Face folder: config.json, model.safetensors, tokenizer.json."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from safetensors.torch import save
from torch import Tensor

from cacr.encoders.text.tower import TextTower, Tokens
from cacr.errors import MissingExtraError, UserError
from cacr.files import write_atomically
from cacr.reading.documents import read_json, read_json_if_any
from cacr.reading.files import kind_of, read_text
from cacr.reading.foreign import foreign
from cacr.reading.tensors import misfit, read_safetensors
from cacr.shell import shell_words

CONFIG, WEIGHTS, TOKENISER = "config.json", "model.safetensors", "tokenizer.json"
POOLING = Path("1_Pooling", "config.json")
"""File in which sentence-transformers describes how tokens become one vector."""

_PICKLED = ("pytorch_model.bin", "pytorch_model.pt", "model.bin")
_JSON = TypeAdapter(dict[str, Any])


class FolderTower(TextTower):
    """A transformer of the ``transformers`` library; the feature is the mean of its tokens, or the first one.

    Args:
        folder: The folder. Nothing in it is executed, and pickled weights are refused.
        context: Largest number of tokens of a sentence; less if the model allows fewer.

    Raises:
        UserError: a file is missing or damaged, or the weights do not fit the configuration.
    """

    def __init__(self, folder: Path, context: int = 77) -> None:
        super().__init__()
        _require_files(folder)
        self._config: dict[str, Any] = read_json(folder / CONFIG, _JSON)
        self._tokeniser_text: str = read_text(folder / TOKENISER)
        pooling = read_json_if_any(folder / POOLING, _JSON) or {}
        self.first_token = bool(pooling.get("pooling_mode_cls_token"))
        self._reader = tokeniser(self._tokeniser_text, folder)
        self.transformer, config = _build(folder, self._config)
        pad, places = getattr(config, "pad_token_id", None), getattr(config, "max_position_embeddings", None)
        if not isinstance(pad, int) or not isinstance(getattr(config, "hidden_size", None), int):
            raise UserError(
                f"{folder} is not a supported text encoder: its config.json has no pad_token_id or no hidden_size; use "
                "a BERT-like sentence encoder, such as all-MiniLM-L6-v2"
            )
        self.pad, self.dim = pad, int(config.hidden_size)
        # RoBERTa counts positions from its padding number.
        self.context = min(context, places - pad - 1) if isinstance(places, int) else context

    @property
    def tokeniser_file(self) -> str:
        """The content of ``tokenizer.json``."""
        return self._tokeniser_text

    def tokenise(self, sentences: Sequence[str]) -> Tokens:
        """Tokenise with the folder's tokeniser, padded to the longest sentence."""
        self._reader.enable_truncation(self.context)
        self._reader.enable_padding(pad_id=self.pad)
        found = self._reader.encode_batch(list(sentences))
        cut = sum(bool(each.overflowing) for each in found)
        return Tokens(torch.tensor([each.ids for each in found], dtype=torch.long), cut)

    def forward(self, tokens: Tensor) -> Tensor:
        """Features (n, dim) of tokens (n, length)."""
        mask = (tokens != self.pad).long()
        hidden: Tensor = self.transformer(input_ids=tokens, attention_mask=mask).last_hidden_state
        if self.first_token:
            return hidden[:, 0]
        weight = mask[..., None].to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1).clamp_min(1)

    def describe(self) -> dict[str, object]:
        """How its tokens are combined; the rest is in the files of the folder."""
        return {"kind": "folder", "context": self.context}

    def save(self, folder: Path) -> None:
        """Write a folder that this class can read again."""
        (folder / POOLING).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / CONFIG, json.dumps(self._config, indent=1).encode())
        write_atomically(folder / TOKENISER, self._tokeniser_text.encode())
        pooling = {
            "pooling_mode_cls_token": self.first_token,
            "pooling_mode_mean_tokens": not self.first_token,
        }
        write_atomically(folder / POOLING, json.dumps(pooling, indent=1).encode())
        state = {name: value.cpu().contiguous() for name, value in self.transformer.state_dict().items()}
        write_atomically(folder / WEIGHTS, save(state, metadata={"format": "pt"}))


def _require_files(folder: Path) -> None:
    if kind_of(folder) != "folder":
        raise UserError(
            f"there is no folder {folder}: --text-encoder takes clip, or a local Hugging Face folder with "
            f"{CONFIG}, {WEIGHTS} and {TOKENISER}"
        )
    missing = [name for name in (CONFIG, WEIGHTS, TOKENISER) if kind_of(folder / name) != "file"]
    if missing == [WEIGHTS] and (pickled := [name for name in _PICKLED if kind_of(folder / name) == "file"]):
        raise UserError(
            f"{folder} has its weights as a pickle ({pickled[0]}), which could run any program: save them as "
            f"{WEIGHTS} (model.save_pretrained(FOLDER, safe_serialization=True))"
        )
    if missing:
        raise UserError(f"{folder} is not a text encoder: it has no {' and no '.join(missing)}")


def tokeniser(text: str, folder: Path) -> Any:
    """The tokeniser of a ``tokenizer.json``."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError("a text encoder in a folder", "text") from None
    with foreign(f"{folder / TOKENISER} is damaged"):
        return Tokenizer.from_str(text)


def _build(folder: Path, described: Mapping[str, Any]) -> tuple[Any, Any]:
    """The transformer with its weights, and its configuration."""
    try:
        from transformers import AutoConfig
    except ImportError:
        raise MissingExtraError("a text encoder in a folder", "text") from None
    if described.get("model_type") in ("clip", "siglip"):
        search = shell_words("cacr", "search", folder, "WORDS")
        raise UserError(
            f"{folder} is a whole CLIP: use it as it is ({search} --data ...), or give only a text encoder"
        )
    with foreign(f"{folder / CONFIG} does not describe a text encoder that transformers knows"):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            empty = _from_config(config)
    stored = _renamed(read_safetensors(folder / WEIGHTS), empty.state_dict())
    if wrong := misfit(empty.state_dict(), stored):
        raise UserError(f"{folder / WEIGHTS} does not fit {CONFIG}: {wrong}")
    model = _from_config(config)
    if not next(model.parameters()).is_meta:  # a run that is only estimated has no values
        model.load_state_dict(stored)
    return model, config


def _from_config(config: Any) -> Any:
    """Build the model without its pooling layer for other tasks, if it has one: it would get no gradient."""
    from transformers import AutoModel

    made: Any = AutoModel
    try:
        return made.from_config(config, add_pooling_layer=False)
    except TypeError:
        return made.from_config(config)


def _renamed(stored: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the model, without a prefix such as ``bert.`` and without those of other tasks."""
    prefixes = Counter(
        long.removesuffix(name)
        for name in own
        for long in stored
        if long == name or long.endswith(f".{name}")
    )
    prefix = max(prefixes, key=lambda each: (prefixes[each], -len(each)), default="")
    return {name: stored[prefix + name] for name in own if prefix + name in stored}
