"""Search: the same images as a literal ranking by cosine, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import cacr
from cacr.data import open_source
from cacr.encoders import load_encoder
from cacr.errors import UserError
from cacr.features import Found, embed_source, encode, search_source
from cacr.reporting.neighbours import CELL, GAP

pytestmark = pytest.mark.trains


def _cosines(run: Path, images: Path, query: Path) -> np.ndarray:
    encoder = load_encoder(run)
    values = encode(encoder, open_source(str(images))).values.double().numpy()
    with torch.inference_mode():
        wanted = encoder(encoder.preprocess(query)[None])[0].double().numpy()
    return values @ wanted / np.linalg.norm(values, axis=1) / np.linalg.norm(wanted)


def _found(found: Found, cosines: np.ndarray) -> list[float]:
    """The cosines of what was found, in its order: images that are equally near may change places."""
    return [float(cosines[neighbour.index]) for neighbour in found.neighbours]


def test_the_nearest_images_are_found_without_the_image_itself(run: Path, images: Path) -> None:
    query = images / "red" / "3.png"
    source = open_source(str(images))
    cosines = _cosines(run, images, query)
    itself = [str(path) for path in source.paths].index(str(query))
    nearest = np.sort(np.delete(cosines, itself))[::-1]
    found = search_source(run, query, str(images), k=5)
    assert _found(found, cosines) == pytest.approx(nearest[:5], abs=1e-5)
    for neighbour in found.neighbours:
        assert neighbour.similarity == pytest.approx(cosines[neighbour.index], abs=1e-5)
        assert neighbour.name == str(source.paths[neighbour.index])
        assert neighbour.label == Path(neighbour.name).parent.name
    assert (found.searched, found.unreadable, found.query) == (45, 0, str(query))
    by_number = search_source(run, str(itself), str(images), k=5)
    assert by_number.neighbours == found.neighbours and by_number.query == str(query)
    everything = search_source(run, query, str(images), k=1000)
    assert _found(everything, cosines) == pytest.approx(nearest, abs=1e-5)
    assert {neighbour.index for neighbour in everything.neighbours} == set(range(45)) - {itself}


def test_an_image_from_elsewhere_and_data_without_labels(run: Path, photos: Path, tmp_path: Path) -> None:
    query = tmp_path / "7.png"
    Image.new("RGB", (50, 30), (200, 30, 30)).save(query)
    found = search_source(run, query, str(photos), k=3)
    cosines = _cosines(run, photos, query)
    assert _found(found, cosines) == pytest.approx(np.sort(cosines)[::-1][:3], abs=1e-5)
    assert all(neighbour.label is None for neighbour in found.neighbours)


def test_stored_features_give_the_same_and_others_are_refused(
    run: Path, images: Path, photos: Path, tmp_path: Path
) -> None:
    query, features = images / "blue" / "0.png", tmp_path / "features.npz"
    embed_source(run, str(images), features)
    fresh = search_source(run, query, str(images), k=4)
    stored = search_source(run, query, str(images), k=4, features=features)
    assert [n.index for n in stored.neighbours] == [n.index for n in fresh.neighbours]

    with pytest.raises(UserError, match="its images have other names"):
        search_source(run, query, str(photos), features=features)
    with np.load(features) as whole:
        parts = dict(whole)

    def changed(**columns: np.ndarray) -> Path:
        np.savez(tmp_path / "changed.npz", **{**parts, **columns})
        return tmp_path / "changed.npz"

    rng = np.random.default_rng(0)
    other = parts["features"] + rng.normal(size=parts["features"].shape).astype(np.float32)
    for path, message in (
        (lambda: changed(features=other), "differ from those of this encoder"),
        (lambda: changed(features=parts["features"][:, :7]), "of dimension 7, but this encoder gives"),
        (lambda: changed(features=parts["features"] * np.nan), "not an .npz file of `cacr embed`"),
        (lambda: changed(index=parts["index"] + 9999), "other names"),
        (lambda: changed(name=parts["name"][:3]), "not an .npz file of `cacr embed`"),
        (lambda: changed(name=np.array([{}] * 45, dtype=object)), "name holds pickled objects"),
        (lambda: query, "cannot be read as .npz"),
        (lambda: tmp_path / "missing.npz", "there is no file"),
    ):
        with pytest.raises(UserError, match=message):
            search_source(run, query, str(images), features=path())


def test_the_picture_shows_the_query_and_then_the_images_found(
    run: Path, images: Path, tmp_path: Path
) -> None:
    query, out = images / "green" / "2.png", tmp_path / "new" / "found.png"
    found = cacr.search(run=run, image=query, data=images, k=7, out=out)
    with Image.open(out) as page:
        assert page.width == GAP + 6 * (CELL + GAP) and page.height > 2 * CELL
        pixels = np.asarray(page.convert("RGB")).astype(float)
    with Image.open(query) as first, Image.open(found.neighbours[0].name) as second:
        for column, image in enumerate((first, second)):
            left = GAP + column * (CELL + GAP)
            shown = pixels[GAP : GAP + CELL, left : left + CELL]
            inner = shown[CELL // 2 - 20 : CELL // 2 + 20, CELL // 2 - 20 : CELL // 2 + 20]
            assert inner.mean(axis=(0, 1)).argmax() == np.asarray(image).mean(axis=(0, 1)).argmax()
    with pytest.raises(UserError, match="exists already"):
        cacr.search(run=run, image=query, data=images, out=out)
    with pytest.raises(UserError, match=r"must end in \.png"):
        cacr.search(run=run, image=query, data=images, out=tmp_path / "found.txt")


def test_wrong_images_are_told(run: Path, images: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG")
    for image, message in (
        (tmp_path / "broken.png", "broken.png: not an image"),
        (tmp_path / "missing.png", "missing.png: No such file"),
        ("45", "no file 45, and .* has 45 images"),
    ):
        with pytest.raises(UserError, match=message):
            search_source(run, image, str(images))
