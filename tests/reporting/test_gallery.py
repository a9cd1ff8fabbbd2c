"""The images of the page: names, sample, pictures and lists, against what is in the folder."""

import base64
import gzip
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cacr.data import ArraySource
from cacr.features.machine import Machine
from cacr.features.reader import fit_reader
from cacr.reporting import gallery as module
from cacr.reporting import queries
from cacr.reporting.gallery import build_gallery
from cacr.reporting.model import load_model
from cacr.reporting.queries import weight_figures
from cacr.reporting.relations import relate, silent
from cacr.reporting.shown import open_shown
from cacr.reporting.sprites import Sheet, SquareCrop, pictures
from cacr.runs.run import Run
from tests.reporting.conftest import CLASSES, colour_of

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def gallery(coloured_run: Path) -> dict[str, Any]:
    return build_gallery([Run.open(coloured_run)])


def _array(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def _cells(gallery: dict[str, Any]) -> np.ndarray:
    """The median colour of each thumbnail."""
    sheet = gallery["thumbnails"]
    with Image.open(io.BytesIO(base64.b64decode(sheet["source"].split(",")[1]))) as page:
        pixels = np.asarray(page)
    side, rows, columns = sheet["side"], sheet["rows"], sheet["columns"]
    cells = pixels.reshape(rows, side, columns, side, 3).swapaxes(1, 2).reshape(rows * columns, -1, 3)
    return np.median(cells, axis=1)[: len(_array(gallery["sample"], "<u2"))]


def _names(gallery: dict[str, Any]) -> list[str]:
    names: list[str] = json.loads(gzip.decompress(base64.b64decode(gallery["names"])))
    return names


def test_the_copy_is_the_near_duplicate(gallery: dict[str, Any], coloured_run: Path) -> None:
    names = open_shown(load_model(Run.open(coloured_run)).run.settings, None).names()[1]
    listed = gallery["maps"][0]["lists"]
    (a, b, correlation), *_ = listed["duplicates"]
    assert {names[a], names[b]} == {"apples/03<b>&'.png", f"{CLASSES[2]}/copy.png"}
    assert correlation == pytest.approx(1)
    pairs = [tuple(pair[:2]) for name in ("duplicates", "hardest", "false") for pair in listed[name]]
    assert len(set(pairs)) == len(pairs)


def test_lists_follow_their_definitions(gallery: dict[str, Any]) -> None:
    entry = gallery["maps"][0]
    near = _array(entry["neighbours"], "<u2").reshape(-1, entry["neighbours_each"])
    labels = _array(gallery["labels"], "<u2")
    assert near.shape == (49, 8) and entry["lists"]["hardest"] and entry["lists"]["false"]
    for a, b, _ in entry["lists"]["false"]:
        assert b in near[a] and a in near[b]
    for a, b, _ in entry["lists"]["hardest"]:
        assert not (b in near[a] and a in near[b]) and labels[a] != labels[b]
    for name in ("hardest", "false"):
        values = [value for *_, value in entry["lists"][name]]
        assert values == sorted(values, reverse=True)


def test_thumbnails_are_the_images(gallery: dict[str, Any], coloured: Path) -> None:
    files = sorted(path for path in coloured.rglob("*.png"))
    cells = _cells(gallery)
    assert (
        _array(gallery["sample"], "<u2").tolist() == list(range(49))
        and gallery["thumbnails"]["side"] % 16 == 0
    )
    for cell in (0, 7, 20, 40):
        label = CLASSES.index(files[cell].parent.name)
        assert np.abs(cells[cell] - colour_of(label, int(files[cell].name[:2]))).max() < 10


def test_large_sets_are_sampled_and_the_lists_have_pictures(
    coloured_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PICTURES", 45)
    gallery = build_gallery([Run.open(coloured_run)], points=48)
    assert (gallery["count"], gallery["total"]) == (48, 49)
    sample = _array(gallery["sample"], "<u2").tolist()
    assert len(sample) == len(set(sample)) == 45 and sample == sorted(sample)
    listed = {i for pairs in gallery["maps"][0]["lists"].values() for a, b, _ in pairs for i in (a, b)}
    assert listed <= set(sample) and {str(i) for i in listed} == set(gallery["large_of"])


def test_names_follow_images_past_one_that_cannot_be_read(trained: Path, tmp_path: Path) -> None:
    for number in range(12):
        size = (30 + number, 40)  # of different sizes, so that files stay files
        Image.new("RGB", size, (20 * number, 100, 100)).save(tmp_path / f"{number:02d}.png")
    (tmp_path / "05.png").write_bytes(b"\x89PNG")
    gallery = build_gallery([Run.open(trained)], data=str(tmp_path))
    assert _names(gallery) == [f"{number:02d}.png" for number in range(12) if number != 5]
    assert gallery["folder"] == str(tmp_path) and gallery["labels"] is None and gallery["count"] == 11
    expected = [20 * int(name[:2]) for name in _names(gallery)]
    assert np.abs(_cells(gallery)[:, 0] - expected).max() < 10


def test_images_of_a_stream_are_shown(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("webdataset")
    for shard in range(2):
        with tarfile.open(tmp_path / f"part-{shard}.tar", "w") as archive:
            for number in range(shard * 8, shard * 8 + 8):
                file = io.BytesIO()
                Image.new("RGB", (40, 40), (15 * number, 90, 90)).save(file, "PNG")
                member = tarfile.TarInfo(f"{number:03d}.png")
                member.size = file.tell()
                file.seek(0)
                archive.addfile(member, file)
    gallery = build_gallery([Run.open(trained)], data=f"wds:{tmp_path}/part-{{0..1}}.tar", points=10)
    assert gallery["count"] == 10 and gallery["total"] == 16
    found = [re.search(r"part-(\d)\.tar, image (\d+)", name) for name in _names(gallery)]
    expected = [15 * (8 * int(match[1]) + int(match[2])) for match in found if match]
    assert len(expected) == 10 and np.abs(_cells(gallery)[:, 0] - expected).max() < 10


def test_neighbours_are_those_of_features_as_they_are_read(coloured_run: Path) -> None:
    model = load_model(Run.open(coloured_run))
    shown = open_shown(model.run.settings, None)
    draw = torch.Generator().manual_seed(0)
    features = 50 + torch.randn(len(shown.numbers) * 2, model.encoder.feature_dim, generator=draw)
    reader = fit_reader(features, "white", 5)
    some = features[: len(shown.numbers)]
    for own, expected in ((reader, reader(some)), (None, some)):  # fewer than 64 images are read raw
        model.encoder.reader = own
        x = torch.nn.functional.normalize(expected.double(), dim=1)
        nearest = (x @ x.T - 9 * torch.eye(len(x))).topk(8, dim=1).values
        related = relate(model, some, shown, Machine(), silent)
        torch.testing.assert_close(related.neighbours.value.double(), nearest, rtol=0, atol=1e-5)


def test_two_runs_share_the_points(coloured_run: Path, trained: Path) -> None:
    gallery = build_gallery([Run.open(coloured_run), Run.open(trained)], points=40)
    assert gallery["count"] == 20 and len(gallery["maps"]) == len(gallery["digests"]) == 2


def test_weights_of_queries_are_those_of_the_equations(
    coloured_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[torch.Tensor] = []
    embed = queries._embed

    def remember(*arguments: Any) -> torch.Tensor:
        embedded.append(embed(*arguments))
        return embedded[-1]

    monkeypatch.setattr(queries, "_embed", remember)
    model = load_model(Run.open(coloured_run))
    source = open_shown(model.run.settings, None).source
    sheet = Sheet(96, 10**6)
    figure = weight_figures(model, source, sheet, Machine())
    assert figure["batch"] == 8 and len(figure["queries"]) == 4
    assert (figure["t_pos"], figure["t_neg"]) == (model.run.t_pos, model.run.t_neg) == (1.0, 4.0)
    (z,) = (views.double().numpy() for views in embedded)
    assert z.shape[:2] == (3, 8)
    for query in figure["queries"]:
        assert len(query["positives"]) == 2 and len(query["most"]) == 5 and len(query["least"]) == 2
        negatives = [*query["most"], *query["least"]]
        batch = sorted([query["image"], *(item["image"] for item in negatives)])
        assert len(set(batch)) == 8
        i = batch.index(query["image"])
        kernel = [np.exp(np.sum((z[0, i] - z[v, i]) ** 2)) for v in (1, 2)]
        found = [item["weight"] for item in query["positives"]]
        assert found == pytest.approx(sorted((2 * k / sum(kernel) for k in kernel), reverse=True), rel=1e-4)
        kernel = [np.exp(-4 * np.sum((z[0, i] - z[0, j]) ** 2)) for j in range(8)]
        total = sum(kernel) - kernel[i]
        expected = [7 * kernel[batch.index(item["image"])] / total for item in negatives]
        assert [item["weight"] for item in negatives] == pytest.approx(expected, rel=1e-4)
        assert expected == sorted(expected, reverse=True)
    assert len(sheet.cells) == 4 * (1 + 2 + 7)


def test_pictures_are_centre_squares_at_their_size() -> None:
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = (200, 100, 50)
    assert np.asarray(SquareCrop(16).picture(Image.fromarray(wide))).reshape(-1, 3).min(0).tolist() == [
        200,
        100,
        50,
    ]
    source = ArraySource(
        "made", torch.arange(5, dtype=torch.uint8)[:, None, None, None].expand(5, 3, 8, 8) * 40
    )
    found = [np.asarray(picture) for picture in pictures(source, [1, 4], 16, Machine())]
    assert [int(picture.mean()) for picture in found] == [40, 160] and found[0].shape == (16, 16, 3)


def test_a_sheet_lowers_its_quality_to_fit() -> None:
    rng = np.random.default_rng(0)
    cells = [Image.fromarray(rng.integers(0, 256, (48, 48, 3), dtype=np.uint8)) for _ in range(20)]
    free, tight = Sheet(48, 10**9, list(cells)), Sheet(48, 40_000, list(cells))
    sizes = [len(sheet.packed()["source"]) for sheet in (free, tight)]  # type: ignore[index]
    assert sizes[1] * 3 / 4 <= 40_100 < sizes[0]


def test_labels_of_some_images_are_shown(coloured_run: Path, tmp_path: Path) -> None:
    settings = Run.open(coloured_run).settings
    whole = open_shown(settings, None)
    (tmp_path / "few.csv").write_text(f"path,label\n{whole.opened.describe(0)},red\n")
    (tmp_path / "three.txt").write_text("".join(f"{whole.opened.describe(n)}\n" for n in range(3)))
    shown = open_shown(settings, None, images=str(tmp_path / "three.txt"), labels=tmp_path / "few.csv")
    labels, names = shown.labels()
    assert labels is not None and labels.tolist() == [0, -1, -1] and names == ["red"]
