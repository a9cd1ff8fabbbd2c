"""``metrics.jsonl``: what is a row, and that a growing file is parsed once."""

import json
import math
from pathlib import Path

import pytest

from cacr.errors import UserError
from cacr.runs import rows as module
from cacr.runs.rows import GrowingRows, read_rows


def test_lines_that_are_no_metrics_are_skipped(tmp_path: Path) -> None:
    """What ``cacr report`` reads beside the results, after a process was killed."""
    lines = [b'{"step": 1, "loss": 2.5}', b"5", b"null", b"[1]", b'"x"', b'{"step": "x"}', b'{"loss": 1}']
    lines += [b'{"step": true}', b"\xff\xfe", b'{"step": 2, "loss"', b'{"step": 3, "loss": 2.0}']
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(lines))
    assert read_rows(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 2.5}, {"step": 3, "loss": 2.0}]
    assert read_rows(tmp_path / "none") == []


def test_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    row = {
        "step": 1,
        "epoch": "x",
        "loss": [1],
        "knn": True,
        "lr": 10**400,
        "rank": None,
        "entropy": math.inf,
    }
    lines = [json.dumps(row), '{"step": -1}', '{"step": 1e3}', '{"step": 2, "epoch": NaN, "loss": 3}']
    lines += ['{"step": 3, "loss": ' + "9" * 5000 + "}", '{"step": 4, "loss": ' + "[" * 5000]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert read_rows(tmp_path / "metrics.jsonl") == [{"step": 1, "entropy": math.inf}, {"step": 2, "loss": 3}]


def test_a_growing_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, parsed, parse = tmp_path / "metrics.jsonl", [], module._row
    monkeypatch.setattr(module, "_row", lambda line: parsed.append(line) or parse(line))
    growing = GrowingRows(path)
    assert growing.read() == []
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n{"ste')
    assert growing.read() == [{"step": 1}, {"step": 2}]
    with path.open("ab") as file:
        file.write(b'p": 3}\n{"step": 4}')
    assert growing.read() == growing.read() == [{"step": n} for n in (1, 2, 3, 4)]
    assert parsed.count(b'{"step": 1}') == parsed.count(b'{"step": 2}') == 1


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(UserError, match=r"metrics\.jsonl is a folder"):
        read_rows(tmp_path / "metrics.jsonl")
