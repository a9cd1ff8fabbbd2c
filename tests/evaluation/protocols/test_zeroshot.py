"""Classes by their names alone, against a computation in NumPy."""

import shutil
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.numpy import load_file

from cacr.encoders import load_encoder
from cacr.evaluation import evaluate_run
from cacr.reporting.results import results_table
from tests.shapes import NAMES

TEMPLATES = ["a {}", "a photo of the {}", "{} on grey"]
CLASSES = sorted(NAMES)


def _unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def _right(folder: Path, images: Path) -> dict[str, list[bool]]:
    """Of each class, which of its images are nearest to its name; heads and averages in NumPy."""
    model, heads = load_encoder(folder), load_file(folder / "text" / "heads.safetensors")
    vectors = []
    for name in CLASSES:
        features = model.text.tower.encode([text.replace("{}", name) for text in TEMPLATES]).numpy()
        vectors.append(_unit(_unit(features @ heads["text_head.weight"].T).mean(axis=0)))
    found = {}
    for name in CLASSES:
        paths = sorted((images / name.replace(" ", "_")).iterdir())
        with torch.no_grad():
            features = model(torch.stack([model.preprocess(Image.open(path)) for path in paths])).numpy()
        guesses = (_unit(features @ heads["image_head.weight"].T) @ np.array(vectors).T).argmax(axis=1)
        found[name] = [CLASSES[guess] == name for guess in guesses]
    return found


def test_accuracy_of_all_images_and_of_each_class_is_numpys(
    captioned: Path, shapes: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(captioned, tmp_path / "run"))
    (tmp_path / "prompts.txt").write_text("\n".join(TEMPLATES))
    values = {"data": str(shapes / "sorted"), "protocol": ("zeroshot",), "workers": 0}
    results = evaluate_run(run, {**values, "prompts": str(tmp_path / "prompts.txt"), "baselines": ("start",)})
    assert [result.subject for result in results] == ["encoder", "start"]
    for result, folder in zip(results, (run, run / "start"), strict=True):
        right = _right(folder, shapes / "sorted")
        assert result.score == pytest.approx(
            np.mean([each for answers in right.values() for each in answers])
        )
        told = result.details["per_class"]
        assert told == pytest.approx({name: np.mean(answers) for name, answers in right.items()})
        assert list(told.values()) == sorted(told.values())
    assert results[0].score > results[1].score
    console = Console(width=80, file=StringIO())
    console.print(results_table(results))
    told = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert any("accuracy by class" in line for line in told)
    assert sum(line.split("  ")[0].strip() in CLASSES for line in told) == len(CLASSES)
