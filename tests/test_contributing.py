"""What CONTRIBUTING.md shows works as it stands there."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from cacr.encoders import build_encoder, save_encoder
from cacr.evaluation import PROTOCOLS, evaluate_run
from tests.evaluation.conftest import write_images

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def load_example(heading: str, folder: Path) -> ModuleType:
    """The Python block of a section of the page, imported as a file of its own."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found, f"there is no example under {heading}"
    file = folder / "example.py"
    file.write_text(found[1], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("example", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_new_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROTOCOLS, "_things", dict(PROTOCOLS._things))  # forgotten after this test
    load_example("A new protocol", tmp_path)
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05)
    (tmp_path / "run").mkdir()
    save_encoder(tmp_path / "run", encoder, encoder.info)
    for part, count in (("train", 6), ("test", 3)):
        write_images(tmp_path / "data" / part, per_class=count, seed=count)
    values = {"data": str(tmp_path / "data"), "protocols": ("centroid", "knn"), "workers": 0}
    centroid, _ = evaluate_run(tmp_path / "run", {**values, "centred": True})
    assert centroid.protocol == "centroid" and centroid.score > 0.6  # tinted by class: hard to miss
    assert centroid.settings == {"centred": True} and centroid.counts["test_images"] == 9
    assert PROTOCOLS.summaries()["centroid"] == "The class whose mean feature is nearest, by cosine."
