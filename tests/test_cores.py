"""Cores of this process, not of the machine."""

import os

import pytest

from cacr.commands.doctor_machine import describe_machine
from cacr.cores import available_cores, share_of_cores
from cacr.data.workers import default_workers


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 cores, of which this process may use 12."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(12)), raising=False)
    for name in ("SLURM_LOCALID", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("machine")
def test_started_processes_share_the_cores_of_their_parent() -> None:
    assert available_cores() == 12
    assert [share_of_cores(count) for count in (1, 4, 5, 100)] == [12, 3, 2, 1]
    assert [default_workers(count, in_memory=False) for count in (1, 4)] == [8, 3]
    assert default_workers(1, in_memory=True) == 0
    assert any(line.startswith("CPU: 12 cores, ") for line in describe_machine())


@pytest.mark.usefixtures("machine")
def test_tasks_of_slurm_keep_the_cores_that_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_LOCALID", "0")
    assert [share_of_cores(count) for count in (1, 4, 8)] == [12, 12, 8]
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")  # torchrun inside a job: its processes share again
    assert share_of_cores(4) == 3


def test_without_affinity_the_machine_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1
