"""Tensors in files: plain ones are read, all others are refused by name."""

from pathlib import Path

import pytest
import torch

from cacr.errors import UserError
from cacr.reading.tensors import read_torch

ODD = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "compressed": lambda: torch.eye(3).to_sparse_csr(),
    "meta": lambda: torch.empty(3, device="meta"),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ODD)
def test_tensors_that_cannot_be_computed_with_are_refused(kind: str, tmp_path: Path) -> None:
    torch.save({"state": [{"sound": torch.ones(2)}, (ODD[kind](),)]}, tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"a\.pt"):
        read_torch(tmp_path / "a.pt")


def test_plain_tensors_are_read_wherever_they_lie(tmp_path: Path) -> None:
    torch.save({"state": [{"a": torch.ones(2)}, (torch.zeros(1),)], "step": 3}, tmp_path / "a.pt")
    found = read_torch(tmp_path / "a.pt")
    assert found["step"] == 3 and torch.equal(found["state"][0]["a"], torch.ones(2))
