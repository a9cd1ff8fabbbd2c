"""The examples of CONTRIBUTING.md, run as they stand there: what a newcomer adds trains without another change."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import cacr
from cacr.cli import app
from cacr.data import SOURCES, open_source
from cacr.encoders import build_encoder, save_encoder
from cacr.evaluation import PROTOCOLS, evaluate_run
from cacr.frameworks import FRAMEWORKS
from cacr.losses import OBJECTIVES
from cacr.methods import METHODS
from cacr.registry import Registry
from cacr.reporting.figures import FIGURES
from cacr.runs.run import Run
from tests.conftest import TINY, save_images
from tests.evaluation.conftest import write_images
from tests.frameworks.making import make_framework, make_views
from tests.losses.making import embeddings, value_and_gradient

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SHORT = {**TINY, "max_steps": 2, "log_every_steps": 1}


def _example(heading: str) -> str:
    """The Python block under a heading."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return str(code)


def _define(heading: str, registry: Registry[Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run an example as a module of its own, in a registry that forgets it afterwards; the new name."""
    monkeypatch.setattr(registry, "_things", dict(registry._things))
    before = set(registry.names())
    exec(compile(_example(heading), f"CONTRIBUTING.md, {heading}", "exec"), {"__name__": "example"})
    (name,) = set(registry.names()) - before
    return name


@pytest.fixture
def objective(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the objective of the example."""
    yield _define("A new objective", OBJECTIVES, monkeypatch)


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the framework of the example."""
    yield _define("A new framework", FRAMEWORKS, monkeypatch)


@pytest.fixture
def method(objective: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the method of the example, whose objective is that of the first."""
    yield _define("A new method", METHODS, monkeypatch)


@pytest.fixture
def protocol(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the protocol of the example."""
    yield _define("A new protocol", PROTOCOLS, monkeypatch)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the source of the example."""
    yield _define("A new source of data", SOURCES, monkeypatch)


@pytest.mark.trains
@pytest.mark.parametrize("framework", ["in_batch", "queue", "momentum"])
def test_the_objective_trains_in_every_framework(objective: str, framework: str, tmp_path: Path) -> None:
    save_images(tmp_path / "photos", 20)
    settings = {**SHORT, "framework": framework, "objective": objective, "temperature": 0.3}
    outcome = cacr.pretrain(data=str(tmp_path / "photos"), out=tmp_path / "run", **settings)
    assert (outcome.status, outcome.step) == ("finished", 2)


@pytest.mark.trains
def test_the_method_trains_by_its_name(method: str, tmp_path: Path) -> None:
    save_images(tmp_path / "photos", 20)
    settings = {**SHORT, "method": method, "views": 2, "temperature": 0.3}
    cacr.pretrain(data=str(tmp_path / "photos"), out=tmp_path / "run", **settings)
    found = Run.open(tmp_path / "run").settings
    assert (found.method, found.objective, found.head) == (method, "decoupled", "simclr")
    assert found.objective_options == {"temperature": 0.3}


def test_the_objective_is_its_equation_in_blocks_as_in_a_matrix(
    objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cacr.losses.engine.chunked._BLOCK_CPU", (3, 4))
    z, found = embeddings(3, 6, 8), []
    for backend in ("dense", "chunked"):
        loss = OBJECTIVES[objective]()
        loss.backend = backend
        found.append(value_and_gradient(loss, z))
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)
    unit = torch.nn.functional.normalize(z, dim=-1)
    expected = []
    for v, w, i in [(v, w, i) for v in range(3) for w in range(3) for i in range(6) if v != w]:
        others = torch.cat([unit[:, :i], unit[:, i + 1 :]], 1).reshape(-1, 8)
        expected.append(torch.logsumexp(others @ unit[v, i] / 0.2, 0) - unit[v, i] @ unit[w, i] / 0.2)
    torch.testing.assert_close(found[0][0], torch.stack(expected).mean())


@pytest.mark.trains
def test_the_framework_trains_with_its_own_settings(framework: str, tmp_path: Path) -> None:
    save_images(tmp_path / "photos", 20)
    settings = {**SHORT, "framework": framework, "held": 0.5}
    outcome = cacr.pretrain(data=str(tmp_path / "photos"), out=tmp_path / "run", **settings)
    assert (outcome.status, outcome.step) == ("finished", 2)
    assert FRAMEWORKS[framework].option_names() == ["held"]


def test_the_framework_holds_what_it_says(framework: str) -> None:
    """Without holding anything it is in-batch; with it the value is the same and the gradient another."""
    views, found = make_views(3, 5), {}
    for name, options in (("in_batch", {}), (framework, {"held": 0.0}), (framework, {"held": 1.0})):
        method = make_framework(name, **options)
        loss = method(views)["loss"]
        loss.backward()
        found[name, *options.values()] = loss.detach(), method.head.weight.grad
    torch.testing.assert_close(found[framework, 0.0], found["in_batch",])
    torch.testing.assert_close(found[framework, 1.0][0], found["in_batch",][0])
    assert not torch.allclose(found[framework, 1.0][1], found["in_batch",][1])
    assert "not pairs" in str(FRAMEWORKS[framework].refusal(OBJECTIVES["barlow_twins"]()))


@pytest.mark.trains
def test_the_source_is_trained_on(source: str, tmp_path: Path) -> None:
    outcome = cacr.pretrain(data=source, out=tmp_path / "run", **SHORT)
    assert (outcome.status, outcome.step) == ("finished", 2)
    train, test = (open_source(source, part=part) for part in ("train", "test"))
    assert len(train) == len(test) == 64 and train.class_names == ("across", "along")
    assert train.read(0).tobytes() != test.read(0).tobytes()


@pytest.mark.trains
def test_the_protocol_measures_with_its_own_settings(protocol: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = build_encoder("small_alexnet", image_size=16, width=0.05)
    (tmp_path / "run").mkdir()
    save_encoder(tmp_path / "run", encoder, encoder.info)
    for part, count in (("train", 6), ("test", 3)):
        write_images(tmp_path / "data" / part, per_class=count, seed=count)
    values = {"data": str(tmp_path / "data"), "protocol": (protocol, "knn"), "workers": 0}
    found, _ = evaluate_run(tmp_path / "run", {**values, "centred": True})
    assert found.protocol == protocol and found.score > 0.6  # tinted by class: hard to miss
    assert found.settings == {"centred": True} and found.counts["test_images"] == 9


def test_the_figure_is_drawn(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = _define("A new figure", FIGURES, monkeypatch)
    (drawn,) = cacr.figures(runs=[trained], out=tmp_path, only=[name])
    assert {file.suffix for file in drawn.files} == {".png", ".svg"} and all(f.exists() for f in drawn.files)


def test_what_is_registered_is_listed(objective: str, framework: str, protocol: str, source: str) -> None:
    listed = CliRunner().invoke(app, ["list"], env={"COLUMNS": "200"})
    assert all(name in listed.output for name in (objective, framework, protocol, source))
