import csv
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from cacr.data import ArraySource, open_source
from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.features import WrittenFeatures, embed, embed_source, encode
from cacr.features.collection import open_images
from tests.evaluation.conftest import write_images


def test_npz_and_parquet_hold_features_names_and_labels(run: Path, images: Path, tmp_path: Path) -> None:
    source = open_source(str(images), part="train")
    expected = encode(load_encoder(run), source).values.numpy()
    names = [str(path) for path in source.paths]

    assert embed_source(run, str(images), tmp_path / "deep" / "features.npz").images == 45
    with np.load(tmp_path / "deep" / "features.npz") as stored:
        np.testing.assert_allclose(stored["features"], expected, rtol=1e-5)
        assert stored["features"].dtype == np.float32
        assert stored["name"].tolist() == names
        assert stored["label"].tolist() == source.labels.tolist()
        assert stored["class_names"].tolist() == ["blue", "green", "red"]

    assert len(embed(load_encoder(run), source, tmp_path / "features.parquet").index) == 45
    table = pyarrow.parquet.read_table(tmp_path / "features.parquet").to_pydict()
    np.testing.assert_allclose(np.array(table["features"]), expected, rtol=1e-5)
    assert table["path"] == names
    assert table["label"] == [source.class_names[label] for label in source.labels]
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
    with pytest.raises(UserError, match=r"must end in \.npz or \.parquet or \.csv"):
        embed_source(run, "nothing", tmp_path / "features.txt")


def test_what_is_left_out_is_told(run: Path, tmp_path: Path) -> None:
    data = write_images(tmp_path / "data", per_class=3, seed=0)
    (data / "red" / "0.png").write_bytes(b"no image")
    (data / "red" / "1.png").write_bytes(b"no image")
    out = tmp_path / "features.npz"
    with pytest.raises(UserError, match=r"more than the limit of 10%[\s\S]*max_unreadable"):
        embed_source(run, str(data), out)
    (note,) = open_source(str(data)).notes
    written = embed_source(run, str(data), out, part="train", max_unreadable=0.3)
    assert written == WrittenFeatures(images=7, part="train", unreadable=2, notes=(note,))
    with np.load(out) as stored:
        assert stored["index"].tolist() == [0, 1, 2, 3, 4, 5, 8]
    with pytest.raises(UserError, match=r"max_unreadable must be from 0 to 1 \(got 30\)"):
        embed_source(run, str(data), tmp_path / "other.npz", max_unreadable=30)
    for path in data.rglob("*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(UserError, match=r"no image of .* is readable; for example .*\.png: not an image"):
        embed_source(run, str(data), tmp_path / "other.npz", max_unreadable=1.0)


def test_names_that_are_not_unicode_are_written_as_text(run: Path, tmp_path: Path) -> None:
    for name in (b"a\xff", "é".encode()):
        folder = tmp_path / "data" / os.fsdecode(name)
        folder.mkdir(parents=True)
        Image.new("RGB", (20, 20)).save(folder / os.fsdecode(b"\xff\xfe.png"))
    data = str(tmp_path / "data")
    names = [f"{data}/a\\xff/\\xff\\xfe.png", f"{data}/é/\\xff\\xfe.png"]
    embed_source(run, data, tmp_path / "features.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "features.parquet").to_pydict()
    assert sorted(table["path"]) == names and sorted(table["label"]) == ["a\\xff", "é"]
    embed_source(run, data, tmp_path / "features.npz")
    with np.load(tmp_path / "features.npz") as stored:
        assert sorted(stored["name"].tolist()) == names
        assert sorted(stored["class_names"].tolist()) == ["a\\xff", "é"]


def test_a_target_that_cannot_be_written_is_refused_before_the_work(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file" / "features.npz", tmp_path / "file" / "deep" / "features.npz"):
        with pytest.raises(UserError, match=r"cannot write .*: Not a directory"):
            embed_source(run, "nothing", out)
    with pytest.raises(UserError, match=r"cannot write .*: File name too long"):
        embed_source(run, "nothing", tmp_path / f"{'x' * 300}.npz")
    with pytest.raises(UserError, match="called 'nothing'"):
        embed_source(run, "nothing", tmp_path / "new" / "features.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_longest_name_can_be_written(run: Path, tmp_path: Path) -> None:
    source = ArraySource("noise", torch.zeros(3, 3, 20, 20, dtype=torch.uint8))
    embed(load_encoder(run), source, tmp_path / f"{'x' * 251}.npz")
    assert [path.name for path in tmp_path.iterdir()] == [f"{'x' * 251}.npz"]


def test_cleaning_up_does_not_hide_why_a_write_failed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **columns: object) -> None:
        raise OSError(28, "No space left on device")

    def gone(path: Path, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    source = ArraySource("noise", torch.zeros(3, 3, 20, 20, dtype=torch.uint8))
    monkeypatch.setattr(np, "savez", full)
    monkeypatch.setattr(Path, "unlink", gone)
    with pytest.raises(UserError, match="No space left"):
        embed(load_encoder(run), source, tmp_path / "features.npz")


def test_tables_hold_a_map_and_neighbours_as_embedding_atlas_reads_them(
    run: Path, images: Path, tmp_path: Path
) -> None:
    few = tmp_path / "labels.csv"
    few.write_text("path,label\nred/0.png,warm\nblue/1.png,cold\n")
    embed_source(run, f"images:{images}", tmp_path / "features.parquet", labels=few)
    table = pyarrow.parquet.read_table(tmp_path / "features.parquet")
    kinds = table.schema
    assert kinds.field("neighbors").type.field("ids").type.value_type == pyarrow.int64()
    rows = table.to_pylist()
    assert [row["label"] for row in rows if row["label"]] == ["cold", "warm"]
    found = open_images(run, f"images:{images}").collect()
    cosine = found.vectors.double().numpy() @ found.vectors.double().numpy().T
    for number, row in enumerate(rows):
        near = row["neighbors"]
        assert near["ids"][0] == number and near["distances"][0] == 0 and len(set(near["ids"])) == 15
        np.testing.assert_allclose(near["distances"][1:], 1 - cosine[number, near["ids"][1:]], atol=1e-5)
        nearest = np.sort(np.delete(1 - cosine[number], number))[:14]
        np.testing.assert_allclose(near["distances"][1:], nearest, atol=1e-5)
        assert 0 <= row["projection_x"] <= 1 and 0 <= row["projection_y"] <= 1

    embed_source(run, f"images:{images}", tmp_path / "features.csv", labels=few)
    with (tmp_path / "features.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["path"] for line in lines] == [row["path"] for row in rows]
    assert [line["label"] or None for line in lines] == [row["label"] for row in rows]
    assert lines[3]["neighbors"].split()[0] == "3"
    stored = [[float(line[f"feature_{n}"]) for n in range(len(rows[0]["features"]))] for line in lines]
    np.testing.assert_allclose(stored, [row["features"] for row in rows], rtol=1e-5, atol=1e-6)
