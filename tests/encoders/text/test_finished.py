"""A finished CLIP is an encoder: its vectors of images and sentences are those of its own library."""

import json
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from cacr.encoders import load_encoder
from cacr.errors import UserError
from tests.encoders.text.making import save_hugging_face_clip, save_open_clip

SENTENCES = ["a photo of a red disc", "the dog"]


def test_a_folder_of_open_clip(tmp_path: Path) -> None:
    import open_clip

    model = save_open_clip(tmp_path)
    encoder = load_encoder(tmp_path)
    assert (encoder.info.image_size, encoder.info.mean) == (32, (0.5, 0.4, 0.3))
    images, tokens = torch.randn(3, 3, 32, 32), open_clip.SimpleTokenizer()(SENTENCES, 10)
    with torch.no_grad():
        torch.testing.assert_close(encoder(images), model.encode_image(images))
        wanted = normalize(model.encode_text(tokens), dim=1)
    torch.testing.assert_close(encoder.text.of_texts(SENTENCES), wanted)
    assert encoder.text.scale == pytest.approx(float(model.logit_scale.detach().exp()), rel=1e-5)


def test_a_folder_of_hugging_face(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    model = save_hugging_face_clip(tmp_path)
    encoder = load_encoder(tmp_path)
    read = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), pad_token="[PAD]")
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        whole = model(**read(SENTENCES, padding=True, return_tensors="pt"), pixel_values=images)
    torch.testing.assert_close(normalize(encoder(images), dim=1), whole.image_embeds, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encoder.text.of_texts(SENTENCES), whole.text_embeds, rtol=1e-4, atol=1e-5)
    cosines = encoder.text.scale * encoder.text.of_texts(SENTENCES) @ whole.image_embeds.T
    torch.testing.assert_close(cosines, whole.logits_per_text, rtol=1e-4, atol=1e-4)


def test_a_folder_with_pickles_or_without_a_tokeniser_is_refused(tmp_path: Path) -> None:
    save_open_clip(tmp_path / "open")
    (tmp_path / "open" / "open_clip_model.safetensors").rename(
        tmp_path / "open" / "open_clip_pytorch_model.bin"
    )
    with pytest.raises(UserError, match="pickled weights"):
        load_encoder(tmp_path / "open")
    save_hugging_face_clip(tmp_path / "hf")
    (tmp_path / "hf" / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        load_encoder(tmp_path / "hf")


def test_a_folder_that_would_fetch_something_is_refused(tmp_path: Path) -> None:
    save_open_clip(tmp_path)
    file = tmp_path / "open_clip_config.json"
    whole = json.loads(file.read_text())
    whole["model_cfg"]["text_cfg"]["hf_model_name"] = "someone/something"
    file.write_text(json.dumps(whole))
    with pytest.raises(UserError, match="would download"):
        load_encoder(tmp_path)


def test_names_of_open_clip_need_a_download() -> None:
    with pytest.raises(UserError, match="allow it with --download"):
        load_encoder("openclip:ViT-B-32")
    with pytest.raises(UserError, match="no pretrained model of this name"):
        load_encoder("openclip:ViT-B-32@nobody")
