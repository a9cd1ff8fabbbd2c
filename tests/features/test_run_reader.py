"""A run saves how its features are read: fitted on its training images, for its last and its best encoder."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cacr
from cacr.data import open_source, prepare
from cacr.encoders import load_encoder
from cacr.encoders.reader_file import READER
from cacr.errors import UserError
from cacr.features import embed_source, encode, search_source
from cacr.features.reader import fit_reader
from cacr.features.run_reader import save_readers
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from tests.conftest import TINY, Once, save_images

pytestmark = pytest.mark.trains

SETTINGS: dict[str, Any] = {**TINY, "epochs": 2, "held_out": 20, "measure_every_epochs": 1}


@pytest.fixture(scope="module")
def many(once: Once) -> Path:
    """A folder of 100 images."""
    return once("many", lambda folder: save_images(folder, 100))


@pytest.fixture(scope="module")
def finished(once: Once, many: Path) -> Path:
    """A run on them, to read."""
    return once("read run", lambda folder: cacr.pretrain(data=many, out=folder, **SETTINGS))


def test_it_is_fitted_on_the_training_images_alone(finished: Path, many: Path) -> None:
    division = Run.open(finished).division
    assert division is not None
    trained = np.setdiff1d(np.arange(100), division.not_trained_on)
    for folder in (finished, finished / "best"):
        encoder = load_encoder(folder)
        assert encoder.reader is not None and encoder.reader.images == 80
        features = encode(encoder, prepare(open_source(str(many))).source.subset(trained)).values
        torch.testing.assert_close(encoder.reader.mean, features.mean(dim=0), rtol=1e-4, atol=1e-5)
        assert encoder.reader.dim == fit_reader(features).dim


def test_a_run_that_goes_on_has_no_reader_until_it_ends(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    first, before = (out / READER).read_bytes(), load_encoder(out).reader
    with monkeypatch.context() as patch:
        patch.setattr("cacr.api.save_readers", lambda *_: None)  # as if it were interrupted
        cacr.pretrain(out=out, resume=True, epochs=3)
    assert (out / READER).read_bytes() == first and load_encoder(out).reader is None
    (out / READER).write_bytes(b"damaged")
    save_readers(RunFolder(out))
    after = load_encoder(out).reader
    assert before is not None and after is not None and after.images == before.images == 80
    assert not torch.equal(after.mean, before.mean)  # it is of the weights that were trained on


def test_few_images_and_lost_images_leave_a_run_without(
    finished: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cacr.pretrain(data=photos, out=tmp_path / "few", **{**SETTINGS, "epochs": 1, "held_out": 0})
    assert not (tmp_path / "few" / READER).exists()

    def refuse(*_: object) -> None:
        raise UserError("the images are gone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cacr.api.save_readers", refuse)
        cacr.pretrain(data=photos, out=tmp_path / "lost", **{**SETTINGS, "epochs": 1, "held_out": 0})
    assert "no reader was saved with the encoder (the images are gone)" in capsys.readouterr().out


def _ranked(run: Path, data: Path, query: Path, read: Any) -> np.ndarray:
    """The cosines of a literal search, largest first and without the image itself."""
    encoder = load_encoder(run)
    values = encode(encoder, open_source(str(data))).values
    with torch.inference_mode():
        wanted = encoder(encoder.preprocess(query)[None])
    x, y = (np.asarray(read(each), dtype=np.float64) for each in (values, wanted))
    cosines = (x @ y[0]) / np.linalg.norm(x, axis=1) / np.linalg.norm(y[0])
    names = [str(path) for path in open_source(str(data)).paths]
    return np.sort(np.delete(cosines, names.index(str(query))))[::-1]


def test_search_reads_by_the_saved_reader_or_by_one_of_the_images(
    finished: Path, many: Path, tmp_path: Path
) -> None:
    query = many / "image007.png"
    saved = load_encoder(finished).reader
    values = encode(load_encoder(finished), open_source(str(many))).values
    bare = Path(shutil.copytree(finished, tmp_path / "bare"))
    (bare / READER).unlink()
    for run, asked, read in (
        (finished, {}, saved),
        (bare, {}, fit_reader(values)),
        (finished, {"reader": "raw"}, lambda x: x),
        (finished, {"reader": "half_white", "reader_components": 5}, fit_reader(values, "half_white", 5)),
    ):
        found = search_source(run, query, str(many), k=5, **asked)
        expected = _ranked(run, many, query, read)[:5]
        assert [n.similarity for n in found.neighbours] == pytest.approx(expected, abs=1e-3)
    for wrong, message in (
        ({"reader": "whit"}, "no reader 'whit'; did you mean white"),
        ({"reader_components": 0}, "reader_components must be at least 1"),
    ):
        with pytest.raises(UserError, match=message):
            search_source(finished, query, str(many), **wrong)


def test_features_are_written_as_they_are_read_when_asked(finished: Path, many: Path, tmp_path: Path) -> None:
    plain, read = tmp_path / "plain.npz", tmp_path / "read.npz"
    embed_source(finished, str(many), plain)
    cacr.embed(run=finished, data=many, out=read, reader="auto")
    with np.load(plain) as whole, np.load(read) as less:
        reader = load_encoder(finished).reader
        assert reader is not None
        np.testing.assert_allclose(less["features"], reader(torch.from_numpy(whole["features"])), atol=1e-5)
    with pytest.raises(UserError, match="or were written with a reader"):
        search_source(finished, many / "image000.png", str(many), features=read)
    with pytest.raises(UserError, match="has no effect without a reader"):
        embed_source(finished, str(many), tmp_path / "b.npz", reader_components=3)
