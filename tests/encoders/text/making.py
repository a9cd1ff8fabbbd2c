"""Tiny text encoders and CLIPs as other software writes them."""

import json
from pathlib import Path
from typing import Any

import torch

WORDS = ("a", "photo", "of", "red", "green", "blue", "disc", "square", "dog", "cat", "the", "in", "snow")


def save_tokeniser(folder: Path, *, end: str = "[SEP]") -> int:
    """A ``tokenizer.json`` of whole words; returns the number of its entries."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: n for n, word in enumerate(("[PAD]", "[UNK]", "[CLS]", *WORDS, end))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single=f"[CLS] $A {end}", special_tokens=[("[CLS]", 2), (end, vocabulary[end])]
    )
    made.save(str(folder / "tokenizer.json"))
    return len(vocabulary)


def save_bert(folder: Path, **files: Any) -> Any:
    """A BERT of two layers, as ``save_pretrained`` writes it; returns the model."""
    from transformers import BertConfig, BertModel

    folder.mkdir(parents=True, exist_ok=True)
    entries = save_tokeniser(folder)
    config = BertConfig(
        vocab_size=entries,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
    )
    torch.manual_seed(0)
    model = BertModel(config).eval()
    model.save_pretrained(folder)
    return model


def save_open_clip(folder: Path) -> Any:
    """A CLIP of open_clip with its configuration, as its hub folders have it; returns the model."""
    import open_clip
    from safetensors.torch import save_file

    config = {
        "embed_dim": 8,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16},
        "text_cfg": {"context_length": 10, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1},
    }
    torch.manual_seed(0)
    model = open_clip.CLIP(**config).eval()
    folder.mkdir(parents=True, exist_ok=True)
    preprocess = {
        "mean": [0.5, 0.4, 0.3],
        "std": [0.2, 0.3, 0.4],
        "interpolation": "bicubic",
        "size": [32, 32],
    }
    described = {"model_cfg": config, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(described))
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    return model


def save_hugging_face_clip(folder: Path) -> Any:
    """A CLIP of Hugging Face as ``save_pretrained`` writes it; returns the model."""
    from transformers import CLIPConfig, CLIPModel

    folder.mkdir(parents=True, exist_ok=True)
    entries = save_tokeniser(folder)
    shared = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = CLIPConfig(
        text_config={
            **shared,
            "vocab_size": entries,
            "max_position_embeddings": 10,
            "eos_token_id": entries - 1,
            "bos_token_id": 2,
            "pad_token_id": 0,
        },
        vision_config={**shared, "image_size": 32, "patch_size": 16},
        projection_dim=8,
    )
    torch.manual_seed(0)
    model = CLIPModel(config).eval()
    model.save_pretrained(folder)
    preprocess = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocess))
    return model
