"""Both sides of an encoder that knows words, in ONNX."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.exporting import export_run
from cacr.training.pretrain import pretrain
from tests.conftest import CAPTIONED
from tests.encoders.text.making import save_bert, save_hugging_face_clip, save_open_clip

pytestmark = pytest.mark.trains


def _run(path: Path, name: str, values: torch.Tensor) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(["embeddings"], {name: values.numpy()})
    return np.asarray(found)


def _made(kind: str, captioned: Path, shapes: Path, folder: Path) -> Path:
    """An encoder with a text side, of one of the kinds that there are."""
    if kind == "run":
        return captioned
    if kind == "run with a folder of Hugging Face":
        save_bert(folder / "bert")
        values = {"data": f"pairs:{shapes}/test.jsonl", "max_steps": 1, "epochs": 1, **CAPTIONED}
        pretrain({**values, "method": "clip", "text_encoder": str(folder / "bert")}, folder / "run")
        return folder / "run"
    (save_hugging_face_clip if kind == "Hugging Face" else save_open_clip)(folder / "clip")
    return folder / "clip"


@pytest.mark.parametrize(
    "kind",
    [
        "run",
        "Hugging Face",
        pytest.param("run with a folder of Hugging Face", marks=pytest.mark.slow),
        pytest.param("open_clip", marks=pytest.mark.slow),
    ],
)
def test_both_graphs_give_the_vectors_of_the_original(
    kind: str, captioned: Path, shapes: Path, tmp_path: Path
) -> None:
    place = _made(kind, captioned, shapes, tmp_path)
    encoder = load_encoder(place)
    done = export_run(place, "onnx", tmp_path / "a.onnx")
    assert "a.text.onnx" in done.notes[-1]
    assert (tmp_path / "a.tokenizer.json").exists() == ("Hugging Face" in kind)
    images, sentences = torch.randn(3, 3, 32, 32), ["a red disc", "the dog in the snow"]
    with torch.no_grad():
        wanted = encoder.text.of_images(encoder(images)).numpy()
    np.testing.assert_allclose(_run(tmp_path / "a.onnx", "images", images), wanted, atol=1e-4)
    tower = encoder.text.tower
    tokens = tower.tokenise(sentences).values
    tokens = torch.nn.functional.pad(tokens, (0, tower.context - tokens.shape[1]), value=tower.pad)
    words = encoder.text.of_texts(sentences).numpy()
    np.testing.assert_allclose(_run(tmp_path / "a.text.onnx", "tokens", tokens), words, atol=1e-4)


@pytest.mark.parametrize("name", ["a.text.onnx", "a.tokenizer.json"])
def test_what_exists_is_told_before_anything_is_written(name: str, captioned: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text("of somebody else")
    with pytest.raises(UserError, match=f"{name} exists already"):
        export_run(captioned, "onnx", tmp_path / "a.onnx")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "of somebody else"


def test_other_formats_say_that_they_have_no_words(captioned: Path, tmp_path: Path) -> None:
    done = export_run(captioned, "torch", tmp_path / "a.safetensors")
    assert "cannot encode text" in done.notes[-1]
    with pytest.raises(UserError, match="cannot encode text"):
        load_encoder(tmp_path / "a.safetensors").text  # noqa: B018
