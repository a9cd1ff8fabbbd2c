import errno
from pathlib import Path

import pytest
import torch

from cacr.config import FORMAT
from cacr.errors import UserError
from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint, load_latest, save_checkpoint


def _state(value: float) -> dict[str, object]:
    counts = {"format": FORMAT, "images": 8, "step": int(value), "epoch": 0, "batch": 0}
    return {
        **counts,
        "method": {"weights": torch.full((1000,), value)},
        "optimizer": {"state": {}},
        "diagnostics": {},
    }


def test_the_last_two_are_kept_and_read_back(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, _state(step))
    assert [step for step, _ in list_checkpoints(tmp_path)] == [2, 3]
    state = load_latest(tmp_path, warn=pytest.fail)
    assert state is not None and state["step"] == 3
    assert torch.equal(state["method"]["weights"], torch.full((1000,), 3.0))


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_file_is_recognised_and_the_previous_one_used(tmp_path: Path, damage: str) -> None:
    save_checkpoint(tmp_path, 1, _state(1))
    newest = save_checkpoint(tmp_path, 2, _state(2))
    content = bytearray(newest.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    newest.write_bytes({"flip": bytes(content), "cut": bytes(content[:-50]), "empty": b""}[damage])
    warnings: list[str] = []
    state = load_latest(tmp_path, warn=warnings.append)
    assert state is not None and state["step"] == 1
    assert len(warnings) == 1 and newest.name in warnings[0] and "previous" in warnings[0]


def test_only_damaged_files_is_an_error_and_none_is_not(tmp_path: Path) -> None:
    assert load_latest(tmp_path, warn=pytest.fail) is None
    save_checkpoint(tmp_path, 1, _state(1)).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="all checkpoints"):
        load_latest(tmp_path, warn=lambda text: None)


def test_a_full_disk_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = save_checkpoint(tmp_path, 5, _state(5))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match=r"disk full.*resumed from step 5"):
        save_checkpoint(tmp_path, 6, _state(6))
    assert [path for _, path in list_checkpoints(tmp_path)] == [kept]
    assert list(tmp_path.iterdir()) == [kept]
    assert load_checkpoint(kept)["step"] == 5
