from pathlib import Path

from cacr.runs.folder import RunFolder


def test_lines_that_are_no_metrics_are_skipped(tmp_path: Path) -> None:
    """What ``cacr report`` reads beside the results, after a process was killed."""
    run = RunFolder(tmp_path)
    lines = [b'{"step": 1, "loss": 2.5}', b"5", b"null", b"[1]", b'"x"', b'{"step": "x"}', b'{"loss": 1}']
    lines += [b'{"step": true}', b"\xff\xfe", b'{"step": 2, "loss"', b'{"step": 3, "loss": 2.0}']
    run.metrics.write_bytes(b"\n".join(lines))
    assert run.read_metrics() == [{"step": 1, "loss": 2.5}, {"step": 3, "loss": 2.0}]
