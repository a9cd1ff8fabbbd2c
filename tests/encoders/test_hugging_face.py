"""Vision transformers of Hugging Face give in timm the features that they give there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from cacr.encoders import load_encoder
from cacr.errors import UserError

transformers = pytest.importorskip("transformers")
TINY = {"hidden_size": 192, "num_hidden_layers": 12, "intermediate_size": 768, "num_attention_heads": 3}
SMALL = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6}
EPS = {"layer_norm_eps": 1e-6}  # timm's; next to the variance of trained features any is nothing

OLD_NAMES = {
    r"^layers\.": "encoder.layer.",
    r"attention\.q_proj": "attention.attention.query",
    r"attention\.k_proj": "attention.attention.key",
    r"attention\.v_proj": "attention.attention.value",
    r"attention\.o_proj": "attention.output.dense",
}
"""Of files on the hub, which older versions wrote; those of the MLP of ViT follow."""
OLD_MLP = {r"\.mlp\.fc1\.": ".intermediate.dense.", r"\.mlp\.fc2\.": ".output.dense."}


def _model(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "vit":
        config = transformers.ViTConfig(**TINY, **EPS, image_size=32, patch_size=16)
        return transformers.ViTModel(config, add_pooling_layer=False).eval()
    config = transformers.Dinov2Config(**SMALL, **EPS, image_size=28, patch_size=14)
    model = transformers.Dinov2Model(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():  # at first they are all 1
            if "lambda1" in name:
                weight.uniform_(0.5, 2)
    return model


@pytest.mark.parametrize(("kind", "names"), [("vit", "new"), ("vit", "old"), ("dinov2", "new")])
def test_a_folder_of_hugging_face_is_read(kind: str, names: str, tmp_path: Path) -> None:
    model = _model(kind)
    model.save_pretrained(tmp_path)
    state: dict[str, Any] = model.state_dict()
    if names == "old":
        for pattern, name in (OLD_NAMES | (OLD_MLP if kind == "vit" else {})).items():
            state = {re.sub(pattern, name, key): tensor for key, tensor in state.items()}
    save_file({f"{kind}.{key}": tensor for key, tensor in state.items()}, tmp_path / "model.safetensors")
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 3, "size": {}})
    )
    encoder = load_encoder(tmp_path)
    side = encoder.info.image_size
    images = torch.randn(2, 3, side, side)
    with torch.no_grad():
        expected = model(images).last_hidden_state[:, 0]
    torch.testing.assert_close(encoder(images), expected, atol=1e-4, rtol=1e-4)
    assert encoder.info.mean == (0.5, 0.5, 0.5) and encoder.info.interpolation == "bicubic"
    loaded = encoder.loaded
    assert loaded is not None and loaded.missing == () and "Hugging Face" in loaded.text
    assert set(loaded.unexpected) <= {"dinov2.embeddings.mask_token"}


def test_heads_are_those_of_the_folder(tmp_path: Path) -> None:
    config = transformers.ViTConfig(**TINY | EPS | {"num_attention_heads": 6}, image_size=32, patch_size=16)
    model = transformers.ViTModel(config, add_pooling_layer=False).eval()
    model.save_pretrained(tmp_path)
    images = torch.randn(1, 3, 32, 32)
    encoder = load_encoder(tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(
            encoder(images), model(images).last_hidden_state[:, 0], atol=1e-4, rtol=1e-4
        )
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_std": [0, 1, 1]}))
    with pytest.raises(UserError, match="images cannot have the mean"):
        load_encoder(tmp_path)


def test_what_is_no_plain_transformer_is_refused_as_such(tmp_path: Path) -> None:
    config = transformers.SwinConfig(embed_dim=8, depths=[1], num_heads=[1], image_size=32, window_size=4)
    transformers.SwinModel(config).save_pretrained(tmp_path)
    assert load_file(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"names no architecture of timm .*'swin'"):
        load_encoder(tmp_path)
