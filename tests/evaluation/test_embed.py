from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

from cacr.data import ArraySource, open_source
from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.evaluation import embed, embed_source, encode


def test_npz_and_parquet_hold_features_names_and_labels(run: Path, images: Path, tmp_path: Path) -> None:
    source = open_source(str(images), part="train")
    expected = encode(load_encoder(run), source).values.numpy()
    names = [str(path) for path in source.paths]

    assert embed_source(run, str(images), tmp_path / "deep" / "features.npz") == 45
    with np.load(tmp_path / "deep" / "features.npz") as stored:
        np.testing.assert_allclose(stored["features"], expected, rtol=1e-5)
        assert stored["features"].dtype == np.float32
        assert stored["name"].tolist() == names
        assert stored["label"].tolist() == source.labels.tolist()
        assert stored["class_names"].tolist() == ["blue", "green", "red"]

    assert embed(load_encoder(run), source, tmp_path / "features.parquet") == 45
    table = pyarrow.parquet.read_table(tmp_path / "features.parquet").to_pydict()
    np.testing.assert_allclose(np.array(table["features"]), expected, rtol=1e-5)
    assert table["name"] == names
    assert table["label"] == source.labels.tolist()
    assert set(table["class"]) == {"blue", "green", "red"}
    assert table["index"] == list(range(45))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "features.parquet"]


def test_images_without_labels_have_none(run: Path, tmp_path: Path) -> None:
    source = ArraySource("noise", torch.zeros(3, 3, 20, 20, dtype=torch.uint8))
    embed(load_encoder(run), source, tmp_path / "features.npz")
    with np.load(tmp_path / "features.npz") as stored:
        assert set(stored) == {"features", "index", "name"}
        assert stored["name"].tolist() == ["noise[0]", "noise[1]", "noise[2]"]


def test_existing_files_and_other_formats_are_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "old.npz").write_bytes(b"precious")
    with pytest.raises(UserError, match="exists already"):
        embed_source(run, "nothing", tmp_path / "old.npz")
    assert (tmp_path / "old.npz").read_bytes() == b"precious"
    with pytest.raises(UserError, match=r"must end in \.npz or \.parquet"):
        embed_source(run, "nothing", tmp_path / "features.csv")
