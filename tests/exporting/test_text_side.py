"""Both sides of an encoder that knows words, in ONNX."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.exporting import export_run
from tests.encoders.text.making import save_hugging_face_clip


def _run(path: Path, name: str, values: torch.Tensor) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(["embeddings"], {name: values.numpy()})
    return np.asarray(found)


@pytest.mark.parametrize("kind", ["run", "finished"])
def test_both_graphs_give_the_vectors_of_the_original(kind: str, captioned: Path, tmp_path: Path) -> None:
    if kind == "finished":
        save_hugging_face_clip(tmp_path / "clip")
    encoder = load_encoder(captioned if kind == "run" else tmp_path / "clip")
    done = export_run(captioned if kind == "run" else tmp_path / "clip", "onnx", tmp_path / "a.onnx")
    assert "a.text.onnx" in done.notes[-1]
    images, sentences = torch.randn(3, 3, 32, 32), ["a red disc", "the dog in the snow"]
    with torch.no_grad():
        wanted = encoder.text.of_images(encoder(images)).numpy()
    np.testing.assert_allclose(_run(tmp_path / "a.onnx", "images", images), wanted, atol=1e-4)
    tokens = encoder.text.tower.tokenise(sentences).values
    words = encoder.text.of_texts(sentences).numpy()
    np.testing.assert_allclose(_run(tmp_path / "a.text.onnx", "tokens", tokens), words, atol=1e-4)


def test_other_formats_say_that_they_have_no_words(captioned: Path, tmp_path: Path) -> None:
    done = export_run(captioned, "torch", tmp_path / "a.safetensors")
    assert "knows no words" in done.notes[-1]
    with pytest.raises(UserError, match="knows no words"):
        load_encoder(tmp_path / "a.safetensors").text  # noqa: B018
