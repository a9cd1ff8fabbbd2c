"""Run folders that somebody else wrote or a disk damaged: a command goes on or refuses, and never fails itself."""

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save, save_file

from cacr.encoders import Reader, load_encoder
from cacr.encoders.reader_file import READER, save_reader
from cacr.errors import UserError
from cacr.reporting.model import load_model
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.runs.snapshots import Pictures, Snapshot, write_pictures, write_snapshot
from cacr.runs.verdict import Verdict, write_verdict
from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint
from cacr.training.building.job import Position, Training
from tests.conftest import Run as Call
from tests.reading.test_fuzz import damaged as random_damage

pytestmark = pytest.mark.trains

ODD: list[Any] = [
    None,
    True,
    -1,
    10**30,
    "x\x1b[31m\x07",
    [],
    [[[1]]],
    {},
    {"a": {"b": 1}},
    float("nan"),
    float("inf"),
    1e308,
]
"""Values that somebody may write where another belongs."""


@pytest.fixture(scope="module")
def whole(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with every file that there can be."""
    path = Path(shutil.copytree(trained, tmp_path_factory.mktemp("whole") / "run"))
    folder = Run.open(path).folder
    write_verdict(folder.verdict, Verdict("healthy", ["fine"], ["go on"], 10, 2.0))
    z = torch.nn.functional.normalize(
        torch.randn(3, 12, 4, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    for step in (0, 10):
        write_snapshot(folder.diagnostics, Snapshot(step, step / 5, z))
    pixels = torch.zeros(3, 12, 3, 8, 8, dtype=torch.uint8)
    write_pictures(folder.diagnostics, Pictures(pixels[0], pixels[:, :4]))
    folder.indices.write_text("[0, 1, 2]")
    folder.reference.write_text('{"name": "mine", "figures": {"knn": [[1, 0.5], [2, 0.6]]}}')
    measured = {"effective_rank": 9.0, "positive_distance": 0.5, "negative_distance": 1.9, "uniformity": -3.0}
    row = {"step": 10, "epoch": 2.0, **measured, "entropy": 2.0, "max_entropy": 2.5, "knn": 0.5}
    with folder.metrics.open("a") as file:
        file.write(json.dumps(row) + "\n")
    encoder = load_encoder(path)
    dim = encoder.feature_dim
    save_reader(path / READER, Reader("white", 70, torch.zeros(dim), torch.ones(dim, 2)), encoder)
    best = folder.best
    best.mkdir()
    for name in ("encoder.json", "encoder.safetensors", READER):
        shutil.copy(path / name, best)
    return path


@pytest.fixture(scope="module")
def evaluated(whole: Path, classes: Path) -> Path:
    """The same with results."""
    import cacr

    cacr.evaluate(run=whole, data=classes, protocol="knn", workers=0, baselines=())
    return whole


@pytest.fixture
def damaged(evaluated: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(evaluated, tmp_path / "run"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is read and loaded, but little drawn; a resumed run is looked at once and trained no further."""

    def load_all(runs: Sequence[Run], **_: object) -> None:
        for each in runs:
            assert load_model(each).run.t_neg >= 0 and each.digest

    def look(job: Training, position: Position, console: object, log: object, observer: Any, *_: Any) -> str:
        if observer:
            observer.look(position.step + 100, 9.0, {"loss": 1.0, "data_wait": 0.1})
        return "finished"

    monkeypatch.setattr("cacr.reporting.page.build_gallery", load_all)
    monkeypatch.setattr("cacr.reporting.figures.weights.SHOWN", 1)
    monkeypatch.setattr("cacr.reporting.figures.draw.save", lambda figure, folder, name: [folder / name])
    monkeypatch.setattr("cacr.training.pretrain.train", look)


def _commands(run: Path, classes: Path) -> Iterator[list[object]]:
    """Every command that reads runs, none with more work than needed."""
    out = run.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    yield ["doctor", run]
    yield ["compare", run]
    yield ["figures", run, "--only", "entropy,weights", "--out", out / "figures"]
    yield ["report", run, "--points", 12, "--out", out / "page.html"]
    yield ["export", run, "--to", "torch", "--out", out / "a.safetensors"]
    yield ["embed", run, classes, "--part", "test", "--out", out / "a.npz"]
    yield ["evaluate", run, "--data", classes, "--protocol", "knn", "--set", "workers=0"]
    yield ["pretrain", "--out", run, "--resume", "--set", "epochs=3"]


def _quiet(call: Call, run: Path, classes: Path, *, only: tuple[str, ...] = ()) -> dict[str, str]:
    """Run the commands; what each said. None may end with a fault, or let a control character through."""
    said = {}
    for command in _commands(run, classes):
        if not only or command[0] in only:
            code, text = call(*command)
            assert code in (0, 2), (command[0], text)
            assert "Traceback" not in text and "\x1b" not in text and "\x07" not in text, command[0]
            said[str(command[0])] = text
    return said


FILES = [
    "config.yaml",
    "encoder.json",
    "encoder.safetensors",
    READER,
    "metrics.jsonl",
    "verdict.json",
    "held_out.json",
    "indices.json",
    "reference.json",
    "diagnostics/step-00000010.safetensors",
    "diagnostics/batch.safetensors",
    "best/encoder.json",
]


def test_a_sound_run_serves_every_command(damaged: Path, classes: Path, run: Call) -> None:
    said = _quiet(run, damaged, classes)
    assert "wrong" not in said["doctor"]
    assert not any("error" in text for text in said.values())


QUICK = pytest.mark.usefixtures("quick")
BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda content: content[: len(content) // 2],
    "not UTF-8": lambda content: content[:9] + b"\xff\xfe\x00" + content[12:],
    "a list": lambda _: b"[" * 2000,
}


@QUICK
@pytest.mark.parametrize("place", FILES)
def test_files_with_other_bytes(place: str, damaged: Path, classes: Path, run: Call) -> None:
    sound = (damaged / place).read_bytes()
    for change in BYTES.values():
        (damaged / place).write_bytes(change(sound))
        _quiet(run, damaged, classes, only=("doctor", "compare", "figures"))
    _quiet(run, damaged, classes, only=("report", "export", "pretrain"))


@QUICK
@pytest.mark.parametrize("place", [*FILES, "checkpoints", "evaluation", "diagnostics"])
def test_a_folder_a_pipe_or_nothing_in_place_of_a_file(
    place: str, damaged: Path, classes: Path, run: Call
) -> None:
    path = damaged / place
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    _quiet(run, damaged, classes, only=("doctor", "compare", "figures", "pretrain"))
    if path.exists():  # the resumed run wrote it anew
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    _quiet(run, damaged, classes, only=("doctor", "compare", "figures", "report", "evaluate", "pretrain"))
    path.unlink(missing_ok=True)  # a resumed run forgets a best encoder that it has not reached
    path.mkdir()
    _quiet(run, damaged, classes, only=("doctor", "figures", "report", "pretrain"))


def _changes(value: Any) -> Iterator[Any]:
    """The same document with one value replaced, left out, or one too many; those inside of it too."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: kept for other, kept in value.items() if other != name}
            yield from ({**value, name: odd} for odd in (*ODD, *_changes(inner)))
        yield {**value, "\x1b]0;x\x07": ODD}
    elif isinstance(value, list):
        yield from ([*value, odd] for odd in ODD)
    yield from ODD


DOCUMENTS = {
    "encoder.json": (json.loads, json.dumps, ("compare", "report", "export", "doctor")),
    "verdict.json": (json.loads, json.dumps, ("report", "doctor")),
    "held_out.json": (json.loads, json.dumps, ("doctor", "pretrain")),
    "indices.json": (json.loads, json.dumps, ("doctor",)),
    "reference.json": (json.loads, json.dumps, ("doctor", "report")),
    "config.yaml": (yaml.safe_load, yaml.safe_dump, ("doctor", "compare", "figures", "report")),
    "evaluation": (json.loads, json.dumps, ("compare", "report", "figures")),
}


@QUICK
@pytest.mark.parametrize("place", DOCUMENTS)
def test_values_of_another_kind(place: str, damaged: Path, classes: Path, run: Call) -> None:
    load, dump, commands = DOCUMENTS[place]
    path = damaged / place
    if path.is_dir():
        (path,) = path.iterdir()
    changes = [*_changes(load(path.read_text()))]
    chosen = [changes[round(number * (len(changes) - 1) / 11)] for number in range(12)]
    for number, changed in enumerate(chosen):
        path.write_text(dump(changed))
        _quiet(run, damaged, classes, only=(commands[number % len(commands)],))


NAMES = [
    *(
        "settings",
        "versions",
        "learned",
        "t_pos",
        "t_neg",
        "weighing",
        "info",
        "training",
        "measured",
        "budget",
        "digest",
    ),
    *("rows", "results", "verdict", "division", "kept", "snapshots", "pictures", "reference"),
]
"""Everything that a run can be asked."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", FILES)
@given(data=st.data())
@settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
def test_a_run_answers_or_refuses(
    place: str, data: st.DataObject, evaluated: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Random damage of one file; whatever is asked of the run, it is answered or refused by its own error."""
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    shutil.copytree(evaluated, folder, ignore=shutil.ignore_patterns("checkpoints", "report.html"))
    content = data.draw(st.one_of(random_damage((folder / place).read_bytes()), st.binary(max_size=300)))
    (folder / place).write_bytes(content)
    for run in (Run.open(folder), Run(RunFolder(folder / "best"))):
        for name in NAMES:
            try:
                getattr(run, name)
            except UserError as error:
                assert str(folder) in str(error)


@QUICK
def test_rows_of_any_kind(damaged: Path, classes: Path, run: Call) -> None:
    row = json.loads((damaged / "metrics.jsonl").read_text().splitlines()[-1])
    lines = [json.dumps(changed) for changed in _changes(row)]
    (damaged / "metrics.jsonl").write_text("\n".join(lines))
    _quiet(run, damaged, classes, only=("doctor", "figures", "report"))
    lines = [json.dumps({**row, name: odd}) for name in row for odd in (1e308, -1e308, 0, float("nan"))]
    (damaged / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    _quiet(run, damaged, classes, only=("figures", "report", "pretrain"))


@QUICK
def test_embeddings_and_pictures_of_any_shape(damaged: Path, classes: Path, run: Call) -> None:
    step, batch = (
        damaged / "diagnostics" / name for name in ("step-00000010.safetensors", "batch.safetensors")
    )
    z, pictures = torch.ones(3, 12, 4).half(), load_file(batch)
    tensors = [z[0], z[:, :2], z[:1], z * float("nan"), z[:, :, :0], z.int(), 60_000 * z]
    for changed in tensors:
        save_file({"z": changed.contiguous()}, step, {"epoch": "2"})
        _quiet(run, damaged, classes, only=("figures",))
    for metadata in ({"epoch": "nan"}, {"epoch": "x"}, {}):
        step.write_bytes(save({"z": z}, metadata))
        _quiet(run, damaged, classes, only=("figures",))
    save_file({"z": z}, step, {"epoch": "2"})
    first, queries = pictures["first"], pictures["queries"]
    for wrong in (
        {"first": first},
        {"first": first[:5], "queries": queries},
        {"first": first, "queries": queries[:2]},
        {"first": first.float(), "queries": queries},
        {"first": first[:, :1], "queries": queries[:, :, :1]},
        {"first": first[0], "queries": queries},
    ):
        save_file({name: value.contiguous() for name, value in wrong.items()}, batch)
        _quiet(run, damaged, classes, only=("figures", "doctor"))


def _states(state: dict[str, Any]) -> Iterator[Any]:
    """Contents of a checkpoint that are not those of this run."""
    yield from ([], {}, {"format": 1}, {**state, "format": 0}, {**state, "format": True})
    for name in ("images", "step", "epoch", "batch", "method", "optimizer", "diagnostics"):
        yield {other: value for other, value in state.items() if other != name}
        yield from ({**state, name: odd} for odd in (None, True, -1, 10**30, "x", [1], {"a": 1}, 1.5))
    yield {**state, "batch": 10**6}
    weights = state["method"]
    first = next(iter(weights))
    for odd in (
        torch.ones(2),
        weights[first] * float("nan"),
        weights[first].to_sparse(),
        weights[first].bool(),
        weights[first].new_zeros(1).expand(10**9, 10**3),
        "x",
    ):
        yield {**state, "method": {**weights, first: odd}}
    memory = state["optimizer"]["state"]
    for changed in (
        {0: {"momentum_buffer": torch.ones(2)}},
        {0: {"momentum_buffer": "x"}},
        {0: {"momentum_buffer": weights[first].to_sparse()}},
        {10**6: memory[0]},
        {"x": memory[0]},
        {0: [1]},
        [1],
    ):
        yield {**state, "optimizer": {**state["optimizer"], "state": changed}}
    for groups in ([], [{}], "x", [{**state["optimizer"]["param_groups"][0], "momentum": "x"}]):
        yield {**state, "optimizer": {**state["optimizer"], "param_groups": groups}}


@QUICK
def test_checkpoints_with_a_right_checksum_and_wrong_contents(
    damaged: Path, classes: Path, run: Call
) -> None:
    folder = damaged / "checkpoints"
    ((_, sound),) = list_checkpoints(folder)
    states = [*_states(load_checkpoint(sound))]
    for number, state in enumerate(states):
        for old in folder.iterdir():
            old.unlink()
        torch.save(state, folder / "written")
        content = (folder / "written").read_bytes()
        (folder / "written").rename(folder / f"step-00000010.{zlib.crc32(content):08x}.pt")
        shown = "pretrain" if number % 2 else "doctor"
        _quiet(run, damaged, classes, only=(shown,))
    _quiet(run, damaged, classes, only=("report",))


def test_an_older_format_is_refused_in_one_sentence(damaged: Path, run: Call) -> None:
    config = (damaged / "config.yaml").read_text()
    (damaged / "config.yaml").write_text(config.replace("format: 1", "format: 0"))
    for command in (["report", damaged], ["pretrain", "--out", damaged, "--resume"], ["compare", damaged]):
        code, text = run(*command)
        assert code == 2 and "has format 0, written by an older version of cacr" in text
