"""What tests share: small images, and one trained run."""

import fcntl
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

if "PYTEST_XDIST_WORKER" in os.environ:  # one process per core: before torch is imported, which reads it once
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(
    "OMP_WAIT_POLICY", "PASSIVE"
)  # as the command line does: the machine may have other work

import numpy as np
import pytest
import torch
from PIL import Image
from typer.main import get_command

from cacr import cli
from cacr.config import PretrainSettings, ResolvedSettings
from cacr.training.settings.described import Described
from cacr.training.settings.resolve import resolve
from tests.shapes import save_shapes

Run = Callable[..., tuple[int, str]]
Once = Callable[[str, Callable[[Path], object]], Path]
TINY = {
    "encoder": "small_alexnet",
    "width": 0.05,
    "image_size": 32,
    "views": 3,
    "batch_size": 8,
    "preset": "cifar",
    "workers": 0,
    "precision": "float32",
}
"""Settings of a run that takes a second; ``auto`` would be bf16 on some processors, and other numbers there."""


TEXT = {"text_width": 64, "text_layers": 1, "text_context": 8}

CAPTIONED: dict[str, Any] = {
    "encoder": "small_alexnet",
    "width": 0.1,
    "image_size": 32,
    "dim": 32,
    "batch_size": 12,
    "lr": 2e-3,
    "scale": (0.9, 1.0),
    "workers": 0,
    "precision": "float32",
    "held_out": 0,
}
"""Settings of a run on captions, with those of its text tower before them."""


_NUMBERS = itertools.count()

TRAINED = {"trained", "captioned", "coloured_run", "coloured_page"}
"""Fixtures that train."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks at a trained run belongs to the tests of `make test-portable`, whoever wrote it."""
    for item in items:
        if TRAINED & set(getattr(item, "fixturenames", ())):
            item.add_marker("trains")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test that trains says so by its marker, or `make test-portable` would leave it out."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    steps: list[object] = []
    counting = register_optimizer_step_pre_hook(lambda *_: steps.append(None))
    try:
        yield
    finally:
        counting.remove()
    if steps and item.get_closest_marker("trains") is None:
        pytest.fail("this test trains: mark it with pytest.mark.trains", pytrace=False)


def save_images(
    folder: Path, count: int, *, size: int = 40, seed: int = 0, suffix: str = ".png"
) -> list[Path]:
    """Images of coloured noise with a bright disc, each one different."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = np.mgrid[:size, :size]
    paths = []
    for number in range(count):
        pixels = rng.integers(0, 100, (size, size, 3))
        row, column = rng.integers(0, size, 2)
        disc = (rows - row) ** 2 + (columns - column) ** 2 < (size // 4) ** 2
        pixels[disc] += rng.integers(50, 156, 3)
        paths.append(folder / f"image{number:03d}{suffix}")
        Image.fromarray(pixels.astype(np.uint8)).save(paths[-1])
    return paths


@pytest.fixture(scope="session", autouse=True)
def wide_terminal() -> Iterator[None]:
    """Where a message is broken into lines must not depend on how long the paths in it are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "500")
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of each test's own, which nobody has made yet: what one has kept, another does not find."""
    folder = tmp_path_factory.getbasetemp() / "caches" / str(next(_NUMBERS))
    monkeypatch.setattr("cacr.features.cache.cache_folder", lambda: folder)
    return folder


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Build a folder once, whichever worker process needs it first: ``once(name, build)`` returns its path.

    Nobody may write there afterwards: other processes read it.
    """
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
    place.mkdir(exist_ok=True)

    def built(name: str, build: Callable[[Path], object]) -> Path:
        folder, finished = place / name, place / f"{name}.finished"
        with (place / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                shutil.rmtree(folder, ignore_errors=True)
                build(folder)
                finished.touch()
        return folder

    return built


@pytest.fixture(scope="session")
def photos(once: Once) -> Path:
    """A folder of 28 images without labels."""
    return once("photos", lambda folder: save_images(folder, 28))


@pytest.fixture(scope="session")
def classes(once: Once) -> Path:
    """An image folder with two classes of 20 images in ``train/`` and 10 in ``test/``."""

    def build(folder: Path) -> None:
        for number, name in enumerate(("apples", "pears")):
            save_images(folder / "train" / name, 20, seed=number)
            save_images(folder / "test" / name, 10, seed=10 + number)

    return once("classes", build)


def resolved(**values: Any) -> ResolvedSettings:
    """Settings of a run of 1,000 images of 32 pixels, with these among them; the objective just as given."""
    options = {
        "objective": values.pop("objective", "cacr"),
        "objective_options": values.pop("objective_options", {}),
    }
    asked = PretrainSettings(**{"data": "digits", **values})
    data = Described("images", 1000, 32, in_memory=True)
    return resolve(asked, data, world_size=1, device=torch.device("cpu")).model_copy(update=options)


def files_of(folder: Path) -> dict[str, bytes]:
    """What a folder holds."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def trained(once: Once, classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finished run of two epochs on ``classes``: this process's copy, which every test leaves as it is."""
    from cacr.training.pretrain import pretrain

    settings = {"data": str(classes), "epochs": 2, "log_every_steps": 1, **TINY}
    built = once("trained", lambda folder: pretrain(settings, folder))
    copy = Path(shutil.copytree(built, tmp_path_factory.mktemp("runs") / "trained"))
    before = files_of(copy)
    yield copy
    assert files_of(copy) == before, "a test has changed the run that all tests share"


@pytest.fixture(scope="session")
def shapes(once: Once) -> Path:
    """Coloured shapes with their names as captions, see :mod:`tests.shapes`."""
    return once("shapes", save_shapes)


@pytest.fixture(scope="session")
def captioned(once: Once, shapes: Path) -> Path:
    """A run of CLIP on coloured shapes."""
    from cacr.training.pretrain import pretrain

    settings = {"data": f"pairs:{shapes}/train.jsonl", "method": "clip", "epochs": 20, **CAPTIONED, **TEXT}
    return once("captioned", lambda folder: pretrain(settings, folder))


@pytest.fixture
def from_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the processes of ``devices`` from the server, see :mod:`tests.started`; what they print is not seen."""
    from tests.started import fabric_of_server

    monkeypatch.setattr("cacr.training.processes.launch.Fabric", fabric_of_server)


@cache
def _command() -> Any:
    """The command line, of which Typer would make its parsers anew at every call."""
    return get_command(cli.app)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Call the command line; returns exit code and what it and its processes printed, on one line."""
    monkeypatch.setattr("cacr.commands.doctor_speed.MEASURE_SECONDS", 0.05)
    monkeypatch.setattr(cli, "app", _command())

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["cacr", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capfd.readouterr()
        code = caught.value.code
        return (0 if code is None else int(code)), " ".join((captured.out + captured.err).split())

    return call


def refused(run: Run, arguments: Sequence[object], *parts: str) -> None:
    """Assert that a command ends with exit code 2 and a message that has these parts."""
    code, text = run(*arguments)
    assert code == 2, text
    assert "Traceback" not in text
    for part in parts:
        assert part in text


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium: the system's, or the one that ``make browser`` installed."""
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install 'cacr[dev]'")
    with api.sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        found = next(filter(None, map(shutil.which, names)), None)
        if found is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium is installed: `make browser` installs one")
        # Chromium's sandbox refuses to run as root, as in containers.
        flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        instance = playwright.chromium.launch(executable_path=found, args=flags, timeout=0)
        yield instance
        instance.close()
