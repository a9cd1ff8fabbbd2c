"""How the command line ends: what the user or the system can change, and what is a fault of our own."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from rich.table import Table
from rich.text import Text

from cacr import cli
from cacr.distributed import SAID_SECONDS, first_to_say
from cacr.errors import refusal
from cacr.terminal import CleanConsole
from tests.conftest import TINY, Run
from tests.started import start_command


def _broken(error: BaseException) -> object:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_fault_of_our_own_is_not_hidden(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacr.commands.doctor.examine", lambda *_, **__: [{}["missing"]])
    code, text = run("doctor")
    assert code == 1
    assert "this is a fault of cacr, please report it: KeyError at" in text and "'missing'" in text
    assert "--debug" in text and "Traceback" not in text


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback_wherever_it_stands(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacr.commands.doctor.examine", _broken(KeyError("missing")))
    arguments = ["--debug", "doctor"] if place == "before" else ["doctor", "--debug"]
    monkeypatch.setattr(sys, "argv", ["cacr", *arguments])
    with pytest.raises(KeyError, match="missing"):
        cli.main()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "there is not enough memory"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
            "there is not enough memory",
        ),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "there is not enough memory"),
        (OSError(28, "No space left on device", "/a/b"), "/a/b: No space left on device"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (OSError(36, "File name too long", "x" * 5000), "x" * 200 + ": File name too long"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_system_refuses_is_one_message(
    error: Exception, told: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cacr.commands.doctor.examine", _broken(error))
    code, text = run("doctor")
    assert code == 2
    assert text.startswith(f"error: {told}")
    assert "fault" not in text


def test_a_real_allocation_that_fails_is_recognised() -> None:
    for sides in ((2**46,), (2**62, 2**62)):
        with pytest.raises((RuntimeError, MemoryError)) as caught:
            torch.empty(*sides)
        assert refusal(caught.value) == "there is not enough memory"
    assert refusal(KeyError("x")) is None and refusal(RuntimeError("shapes differ")) is None


def test_a_link_that_leads_in_a_circle_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises((OSError, RuntimeError)) as caught:
        (tmp_path / "loop").resolve(strict=True)
    assert "loop" in (refusal(caught.value) or "")


def test_text_from_files_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b[31mred\x07\r\x9b2J\udcff end"
    table = Table()
    table.add_column("name")
    table.add_row(hostile)
    for thing in (hostile, Text(hostile), table):
        CleanConsole().print(thing)
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\r", "\x9b", "\udcff"} & set(printed)
    assert printed.count(r"a\x1b[31mred") == 3 and printed.count(r"\xff end") == 3
    CleanConsole().print("[bold]one[/bold]\ntwo")
    assert capsys.readouterr().out == "[bold]one[/bold]\ntwo\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    """As ``cacr list | head -1`` does it; the rest of what is printed is more than a pipe holds."""
    with subprocess.Popen(
        [sys.executable, "-m", "cacr", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        command.stdout.readline()
        command.stdout.close()
        errors = command.stderr.read()
    assert (command.returncode, errors) == (0, "")


def test_an_error_is_told_by_the_first_process_that_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert first_to_say("wrong") and first_to_say("wrong")  # one process alone says everything
    monkeypatch.setenv("MASTER_PORT", "1")
    assert first_to_say("wrong") and not first_to_say("wrong") and first_to_say("something else")
    monkeypatch.setenv("MASTER_PORT", "2")
    assert first_to_say("wrong")  # another run
    for said in tmp_path.iterdir():
        os.utime(said, (0, said.stat().st_mtime - 2 * SAID_SECONDS))
    assert first_to_say("wrong")  # an earlier run on the same port does not silence this one
    assert len(list(tmp_path.iterdir())) == 1  # and what earlier runs said is swept up


def test_torchrun_tells_an_error_once(photos: Path, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    settings = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
    wrong = [
        "-m",
        "cacr",
        "pretrain",
        str(photos),
        "--out",
        str(tmp_path / "run"),
        *settings,
        "--set",
        "viws=3",
    ]
    ended = subprocess.run([*torchrun, *wrong], capture_output=True, text=True)
    assert ended.returncode != 0
    assert (ended.stdout + ended.stderr).count("there is no setting 'viws'") == 1


def test_a_fault_in_a_started_process_is_one_of_ours(photos: Path, tmp_path: Path) -> None:
    """A module that breaks the training is loaded by the processes that ``--devices`` starts."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if any('spawn_main' in text for text in sys.orig_argv):\n"
        "    from cacr.training import pretrain\n"
        "    pretrain.prepare_data = lambda *_: {}['missing']\n"
    )
    settings = [part for name, value in TINY.items() for part in ("--set", f"{name}={value}")]
    process, printed = start_command(
        ["pretrain", photos, "--out", tmp_path / "run", "--devices", 2, *settings],
        partial(_prepare, tmp_path),
    )
    told = printed.read()
    process.join()
    assert process.exitcode == 1, told
    assert "this is a fault of cacr" in told


def _prepare(modules: Path) -> None:
    """Let processes that are started load a module from there; errors go where all else is printed."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(modules), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.dup2(1, 2)


VERSION_THEN_TORCH = """
from cacr import cli
try:
    cli.main()
finally:
    import torch
"""
"""A command, and then what most commands load: PyTorch alone is quicker than all that one of them needs."""


@pytest.mark.parametrize(("asked", "waits"), [({}, "sleep"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "spin")])
def test_threads_that_wait_sleep_unless_the_user_says_otherwise(asked: dict[str, str], waits: str) -> None:
    """What GNU's OpenMP, with which PyTorch comes on Linux, says of itself when it is loaded."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    told = subprocess.run(
        [sys.executable, "-c", VERSION_THEN_TORCH, "--version"],
        env={**inherited, "OMP_DISPLAY_ENV": "verbose", **asked},
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    if "GOMP_SPINCOUNT" not in told:
        pytest.skip("this PyTorch has threads of another kind")
    assert ("GOMP_SPINCOUNT = '0'" in told) == (waits == "sleep")
