"""Figures are checked for the data that they draw."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image
from safetensors.torch import load_file, save_file

from cacr.encoders.files import WEIGHTS
from cacr.errors import UserError
from cacr.evaluation import PROTOCOLS, Result, write_result
from cacr.reporting.figures import draw_figures
from cacr.reporting.figures.accuracy import accuracy_against, accuracy_against_epoch
from cacr.reporting.figures.entropy import entropy_figure
from cacr.reporting.figures.neighbourhood import neighbourhood_figure, place
from cacr.reporting.figures.weights import weights_figure
from cacr.runs.folder import RunFolder
from cacr.runs.result import fingerprint
from cacr.runs.run import open_runs
from cacr.runs.snapshots import Snapshot, write_snapshot
from tests.conftest import resolved
from tests.reporting.test_headline import RESULT

VIEWS, IMAGES, DIM = 4, 20, 6


def _run(path: Path, rows: list[dict[str, float]] | None = None, **settings: Any) -> Path:
    """A run folder with these rows, without a training."""
    run = RunFolder(path)
    run.create()
    values = {"data": "digits", "views": VIEWS, "batch_size": 64, "epochs": 2, **settings}
    run.write_settings(resolved(**values), {})
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows or []))
    return path


def _row(epoch: int, entropy: float, knn: float) -> dict[str, float]:
    return {"step": 10 * epoch, "epoch": epoch, "entropy": entropy, "max_entropy": 4.5, "knn": knn}


def _batch(path: Path) -> torch.Tensor:
    """Embeddings of one batch after steps 0 and 20, and pictures in which every view has a grey of its own."""
    run = RunFolder(path)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(VIEWS, IMAGES, DIM))
    z[1:] = z[0] + 0.4 * z[1:]
    z = torch.from_numpy(z / np.linalg.norm(z, axis=-1, keepdims=True)).float()
    write_snapshot(run.diagnostics, Snapshot(0, 0.0, z.flip(0)))
    write_snapshot(run.diagnostics, Snapshot(20, 2.0, z))
    grey = torch.arange(VIEWS * IMAGES, dtype=torch.uint8).view(VIEWS, IMAGES, 1, 1, 1)
    pictures = (2 * grey).expand(-1, -1, 3, 8, 8)
    content = {"first": pictures[0].contiguous(), "queries": pictures[:, :8].contiguous()}
    content["originals"] = pictures[0] + 1  # an odd grey
    save_file(content, run.diagnostics / "batch.safetensors")
    return z.half().float()


def test_entropy_of_several_runs_below_the_dotted_maximum(tmp_path: Path) -> None:
    one = _run(
        tmp_path / "one", [_row(0, 4.4, 0.1), {"step": 5, "epoch": 0.5, "loss": 1.0}, _row(1, 4.0, 0.2)]
    )
    two = _run(tmp_path / "two", [_row(0, 4.3, 0.1), _row(2, 3.5, 0.3)])
    (axes,) = entropy_figure(open_runs([one, two])).axes
    first, second, maximum = axes.lines
    assert (first.get_xdata().tolist(), first.get_ydata().tolist()) == ([0, 1], [4.4, 4.0])
    assert (second.get_xdata().tolist(), second.get_ydata().tolist()) == ([0, 2], [4.3, 3.5])
    assert list(maximum.get_ydata()) == [4.5, 4.5] and maximum.get_linestyle() == ":"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two", "maximum, 4.50"]


def test_accuracy_against_epoch(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", [_row(0, 4.4, 0.125), _row(2, 4.0, 0.5)])
    (axes,) = accuracy_against_epoch(open_runs([run])).axes
    (line,) = axes.lines
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([0, 2], [12.5, 50.0])


def test_weights_are_those_of_the_last_epoch_above_their_original_images(tmp_path: Path) -> None:
    path = _run(tmp_path / "run", objective_options={"t_pos": 1.5, "t_neg": 3.0})
    z = _batch(path).double().numpy()
    figure = weights_figure(open_runs([path])[0], query=2)

    def grey(axes: Any) -> int:
        return int(axes.images[0].get_array()[0, 0, 0])

    d_pos = np.array([np.sum((z[0, 2] - z[v, 2]) ** 2) for v in range(1, VIEWS)])
    pi_pos = np.exp(1.5 * d_pos) / np.exp(1.5 * d_pos).sum()
    d_neg = {j: np.sum((z[0, 2] - z[0, j]) ** 2) for j in range(IMAGES) if j != 2}
    total = sum(np.exp(-3.0 * d) for d in d_neg.values())
    pi_neg = {j: np.exp(-3.0 * d) / total for j, d in d_neg.items()}
    order = sorted(pi_neg, key=lambda j: -pi_neg[j])
    # all weights, the highest first
    positive, negative = ([bar.get_height() for bar in axes.patches] for axes in figure.get_axes()[:2])
    np.testing.assert_allclose(positive, np.sort(pi_pos)[::-1], rtol=5e-3)  # half precision
    np.testing.assert_allclose(negative, [pi_neg[j] for j in order], rtol=5e-3)
    # views in the order of their weights, which stand above them, and the original images below
    shown = [axes for axes in figure.get_axes() if axes.images]
    above, below = [a for a in shown if grey(a) % 2 == 0], [a for a in shown if grey(a) % 2 == 1]
    views = 1 + np.argsort(-pi_pos)
    ends = [*order[:4], *order[-4:]]
    assert [grey(axes) for axes in above] == [
        4,
        *(2 * (v * IMAGES + 2) for v in views),
        *(2 * j for j in ends),
    ]
    assert [grey(axes) for axes in below] == [5, *(2 * j + 1 for j in ends)]
    titles = [float(axes.get_title()) for axes in above[1:]]
    expected = [*np.sort(pi_pos)[::-1], *(pi_neg[j] for j in ends)]
    np.testing.assert_allclose(titles, expected, rtol=0.06)  # two digits


def test_pictures_of_an_earlier_version_have_no_originals(tmp_path: Path) -> None:
    path = _run(tmp_path / "run")
    _batch(path)
    file = RunFolder(path).diagnostics / "batch.safetensors"
    content = {name: value for name, value in load_file(file).items() if name != "originals"}
    save_file(content, file)
    shown = [axes for axes in weights_figure(open_runs([path])[0]).get_axes() if axes.images]
    assert len(shown) == 1 + (VIEWS - 1) + 2 * 4


def test_the_neighbourhood_is_centred_and_coloured(tmp_path: Path) -> None:
    path = _run(tmp_path / "run", objective_options={"t_neg": 3.0})
    z = _batch(path)
    figure = neighbourhood_figure(open_runs([path]), query=1)
    assert [axes.get_title() for axes in figure.axes] == ["epoch 0", "epoch 2"]
    found = place(z, 1)
    assert found.negatives.shape == (IMAGES - 1, 2) and found.positives.shape == (VIEWS - 1, 2)
    negatives, positives, query = figure.axes[1].collections
    np.testing.assert_allclose(negatives.get_offsets(), found.negatives)
    np.testing.assert_allclose(positives.get_offsets(), found.positives)
    np.testing.assert_allclose(query.get_offsets(), [[0, 0]])
    colours = [to_hex(part.get_facecolor()[0]) for part in (query, positives, negatives)]
    assert colours == ["#009e73", "#0072b2", "#d55e00"]  # green, blue, red
    (circle,) = figure.axes[1].patches
    assert circle.get_radius() == 3.0 and circle.get_linestyle() == "--"


def test_the_epochs_of_the_paper_are_drawn(tmp_path: Path) -> None:
    path = _run(tmp_path / "run")
    z = torch.nn.functional.normalize(torch.randn(2, 8, 4), dim=-1)
    for epoch in (0, 1, 20, 60, 200):
        write_snapshot(RunFolder(path).diagnostics, Snapshot(10 * epoch, epoch, z))
    figure = neighbourhood_figure(open_runs([path]))
    assert [axes.get_title() for axes in figure.axes] == ["epoch 1", "epoch 20", "epoch 200"]


def test_runs_are_stacked_under_the_names_that_they_are_given(tmp_path: Path) -> None:
    paths = []
    for name, epochs in (("a", (0, 1, 20, 200)), ("b", (0, 0.4, 4))):
        paths.append(_run(tmp_path / name))
        z = torch.nn.functional.normalize(torch.randn(2, 8, 4), dim=-1)
        for epoch in epochs:
            write_snapshot(RunFolder(paths[-1]).diagnostics, Snapshot(int(10 * epoch), epoch, z))
    figure = neighbourhood_figure(open_runs(paths, ["CL", "CACR"]))
    assert [axes.get_title() for axes in figure.axes] == [
        *("epoch 1", "epoch 20", "epoch 200"),
        *("epoch 0", "epoch 0.4", "epoch 4"),
    ]
    labels = [figure.axes[place].get_ylabel().split("\n")[0] for place in (0, 3)]
    assert labels == ["CL", "CACR"]
    (drawn,) = draw_figures(paths, out=tmp_path / "out", only=["tsne"], names=["CL", "CACR"])
    assert [file.name for file in drawn.files] == ["tsne.png", "tsne.svg"]


def test_neighbours_stay_neighbours_in_the_plane() -> None:
    z = torch.nn.functional.normalize(
        torch.randn(2, 30, 5, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    z[1] = z[0] + 0.001  # the positive lies on the query
    found = place(torch.nn.functional.normalize(z, dim=-1), 7)
    assert np.linalg.norm(found.positives[0]) < np.linalg.norm(found.negatives, axis=1).min()


@pytest.mark.parametrize(
    ("name", "varied"),
    [
        ("k", {"views": [2, 3, 5]}),
        ("batch_size", {"batch_size": [32, 64, 128]}),
        ("t_pos", {"t_pos": [0.5, 1.0, 2.0]}),
        ("t_neg", {"t_neg": [1.0, 2.0, 4.0]}),
    ],
)
def test_accuracy_against_a_setting(name: str, varied: dict[str, list[float]], tmp_path: Path) -> None:
    ((setting, values),) = varied.items()
    paths = []
    for number, value in enumerate(values):
        for seed in (0, 1):
            knn = 0.1 * number + 0.02 * seed
            options = (
                {"objective_options": {setting: value}} if setting.startswith("t_") else {setting: value}
            )
            paths.append(_run(tmp_path / f"{value}-{seed}", [_row(2, 4.0, knn)], seed=seed, **options))
    (axes,) = accuracy_against(open_runs(paths[::-1]), name).axes
    (container,) = axes.containers
    line, _, (bars,) = container
    x = [value - 1 for value in values] if name == "k" else values
    np.testing.assert_allclose(np.asarray(line.get_xdata(), dtype=float), x)
    np.testing.assert_allclose(
        np.asarray(line.get_ydata(), dtype=float), [1, 11, 21]
    )  # the mean of two seeds
    spans = [np.asarray(segment[:, 1], dtype=float) for segment in bars.get_segments()]
    # two seeds, two points apart: the deviation that `cacr compare` shows, with n - 1
    np.testing.assert_allclose([(b - a) / 2 for a, b in spans], [np.sqrt(2)] * 3)
    others = [n for n in ("k", "batch_size", "t_pos", "t_neg") if n != name]
    for other in others:
        with pytest.raises(UserError, match="no two of these runs differ"):
            accuracy_against(open_runs(paths), other)


def test_accuracies_are_those_of_the_present_weights_on_test_images(tmp_path: Path) -> None:
    paths = []
    for views in (2, 4):
        folder = RunFolder(_run(tmp_path / str(views), views=views))
        (folder.path / WEIGHTS).write_bytes(b"weights")
        result = replace(RESULT, score=views / 10, weights=fingerprint(folder.path / WEIGHTS))
        for each in (
            result,
            replace(result, score=0.9, held_out=True),
            replace(result, score=0.9, weights="earlier", seed=1),
        ):
            write_result(folder.evaluation, each)
        paths.append(folder.path)
    (axes,) = accuracy_against(open_runs(paths), "k").axes
    assert axes.containers[0][0].get_ydata().tolist() == pytest.approx([20, 40])
    assert axes.get_title() == "linear on digits"


def test_runs_that_differ_in_something_else_are_lines_of_their_own(tmp_path: Path) -> None:
    paths = [
        _run(tmp_path / f"{objective}-{views}", [_row(2, 4.0, views / 10)], objective=objective, views=views)
        for objective in ("cacr", "cmc")
        for views in (2, 4)
    ]
    (axes,) = accuracy_against(open_runs(paths), "k").axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["objective=cacr", "objective=cmc"]
    assert [container[0].get_ydata().tolist() for container in axes.containers] == [[20, 40], [20, 40]]


@pytest.mark.parametrize(
    "other", [{"optimizer": "adam"}, {"preset": "moco-v2"}, {"head": "mlp"}, {"image_size": 64}, {"lr": 0.5}]
)
def test_runs_of_other_settings_are_no_seeds(other: dict[str, Any], tmp_path: Path) -> None:
    paths = [
        _run(
            tmp_path / f"{number}-{views}", [_row(2, 4.0, views / 10 + number / 100)], views=views, **settings
        )
        for number, settings in enumerate(({"seed": 1}, {"seed": 2}, {"seed": 1, **other}))
        for views in (2, 4)
    ]
    (axes,) = accuracy_against(open_runs(paths), "k").axes
    drawn = [container[0].get_ydata().tolist() for container in axes.containers]
    assert drawn == [pytest.approx([20.5, 40.5]), pytest.approx([22, 42])]


def _swept(folder: Path, setting: str, values: list[int], views: int, **more: Any) -> list[Path]:
    """Runs that all see about this number of views, with the warm-up that resolved settings have."""
    paths = []
    for value in values:
        own = {"views": 5, "batch_size": 128, setting: value} | more
        steps = round(views / (own["views"] * own["batch_size"]))
        length = {"max_steps": steps, "epochs": 1000, "warmup_epochs": round(0.05 * steps / 390, 4)}
        knn = [_row(2, 4.0, value / 1000)]
        paths.append(_run(folder / f"{views}-{value}-{len(paths)}", knn, **{**length, **own}))
    return paths


@pytest.mark.parametrize(
    ("name", "setting", "values"),
    [("k", "views", [2, 3, 5, 7, 9, 11]), ("batch_size", "batch_size", [64, 128, 256, 512, 768])],
)
def test_a_length_that_follows_from_the_setting_is_part_of_it(
    name: str, setting: str, values: list[int], tmp_path: Path
) -> None:
    paths = _swept(tmp_path, setting, values, 200_000)
    (axes,) = accuracy_against(open_runs(paths), name).axes
    (container,) = axes.containers
    assert container[0].get_ydata().tolist() == pytest.approx([value / 10 for value in values])
    twice = _swept(tmp_path, setting, values, 400_000)  # a longer sweep is another line
    (axes,) = accuracy_against(open_runs([*paths, *twice]), name).axes
    assert [len(container[0].get_xdata()) for container in axes.containers] == [len(values)] * 2
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [label.startswith("views_seen=") for label in labels] == [True, True] and len(set(labels)) == 2
    with pytest.raises(
        UserError, match="no two of these runs differ only in"
    ):  # neither equal views nor steps
        accuracy_against(open_runs([paths[0], twice[-1]]), name)


def test_runs_of_equal_steps_are_a_line_and_other_warm_ups_are_not(tmp_path: Path) -> None:
    equal = [_run(tmp_path / f"s{v}", [_row(2, 4.0, v / 10)], views=v, max_steps=100) for v in (2, 4)]
    fewer = _run(tmp_path / "f", [_row(2, 4.0, 0.9)], views=4, max_steps=50)  # the views of the first
    (axes,) = accuracy_against(open_runs([*equal, fewer]), "k").axes
    (container,) = axes.containers
    assert container[0].get_ydata().tolist() == [20, 40]
    lengths = [(2, 100, 0.0), (4, 50, 0.0), (2, 100, 1.0), (4, 50, 0.5)]
    cold, also_cold, warm, also_warm = (
        _run(
            tmp_path / f"{v}-{warmup}", [_row(2, 4.0, v / 10)], views=v, max_steps=steps, warmup_epochs=warmup
        )
        for v, steps, warmup in lengths
    )
    with pytest.raises(UserError, match="no two of these runs differ only in"):
        accuracy_against(open_runs([cold, also_warm]), "k")
    (axes,) = accuracy_against(open_runs([cold, also_cold, warm, also_warm]), "k").axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["warmup_epochs=0.0", "warmup_epochs=1.0"]
    assert [container[0].get_ydata().tolist() for container in axes.containers] == [[20, 40]] * 2


LINEAR = sorted(name for name in PROTOCOLS if name.startswith("linear"))


@pytest.mark.parametrize("protocol", LINEAR)
def test_the_accuracy_of_any_linear_protocol_is_drawn(protocol: str, tmp_path: Path) -> None:
    paths = [_run(tmp_path / str(views), [_row(2, 4.0, 0.1)], views=views) for views in (2, 4)]
    for path, score in zip(paths, (0.25, 0.5), strict=True):
        result = Result(
            *(protocol, "encoder", score, None, "digits", "digits", "", None),
            *({}, {}, 0, {}, {}, {}),
        )
        write_result(RunFolder(path).evaluation, result)
    (axes,) = accuracy_against(open_runs(paths), "k").axes
    assert axes.get_title() == f"{protocol} on digits"
    assert axes.containers[0][0].get_ydata().tolist() == [25, 50]


def test_classifiers_trained_on_the_way_are_drawn_instead_of_neighbours(tmp_path: Path) -> None:
    rows = [_row(0, 4.4, 0.1) | {"probe": 0.25}, _row(1, 4.2, 0.2), _row(2, 4.0, 0.5) | {"probe": 0.75}]
    paths = [_run(tmp_path / "probed", rows), _run(tmp_path / "other", [_row(0, 4.4, 0.1)])]
    (axes,) = accuracy_against_epoch(open_runs(paths[:1])).axes
    (line,) = axes.get_lines()
    assert line.get_ydata().tolist() == [25, 75] and "linear classifiers" in axes.get_title()
    (axes,) = accuracy_against_epoch(open_runs(paths)).axes  # what all runs have: no run is left out
    assert "kNN" in axes.get_title() and len(axes.get_lines()) == 2


def test_a_temperature_is_drawn_as_the_t_neg_that_it_is(tmp_path: Path) -> None:
    paths = [
        _run(
            tmp_path / str(tau),
            [_row(2, 4.0, tau)],
            objective="info_nce",
            objective_options={"temperature": tau},
        )
        for tau in (0.25, 0.125)
    ]
    (axes,) = accuracy_against(open_runs(paths), "t_neg").axes
    assert axes.containers[0][0].get_xdata().tolist() == [2, 4]


def test_files_are_png_and_svg_and_reasons_are_given(tmp_path: Path) -> None:
    path = _run(tmp_path / "cost $1$ <b>", [_row(0, 4.4, 0.1), _row(2, 4.0, 0.5)])
    _batch(path)
    drawn = {item.name: item for item in draw_figures([path])}
    assert {name for name, item in drawn.items() if item.files} == {
        "entropy",
        "weights",
        "tsne",
        "accuracy-epoch",
    }
    for item in drawn.values():
        assert bool(item.files) != bool(item.reason)
        if item.files:
            png, svg = item.files
            assert png.parent == path / "figures"
            with Image.open(png) as picture:
                assert min(picture.size) > 300
            text = svg.read_text(encoding="utf-8")
            assert text.startswith("<?xml") and "<b>" not in text
    assert "cost $1$ &lt;b&gt;" in (path / "figures" / "entropy.svg").read_text(encoding="utf-8")
    before = (path / "figures" / "tsne.svg").read_bytes()
    draw_figures([path], only=["tsne"])
    assert (path / "figures" / "tsne.svg").read_bytes() == before


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    empty = _run(tmp_path / "empty")
    with pytest.raises(UserError, match="nothing can be drawn"):
        draw_figures([empty])
    with pytest.raises(UserError, match="no pictures"):
        draw_figures([empty], only=["weights"])
    with pytest.raises(UserError, match="did you mean entropy"):
        draw_figures([empty], only=["entropie"])
    with pytest.raises(UserError, match="not a run folder"):
        draw_figures([tmp_path])
    path = _run(tmp_path / "run")
    _batch(path)
    with pytest.raises(UserError, match="query 8"):
        draw_figures([path], only=["weights"], query=8)
