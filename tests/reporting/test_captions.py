"""What the page shows of captions comes from their measurement."""

import shutil
from pathlib import Path
from typing import Any

from cacr.evaluation import evaluate_run
from cacr.reporting.captions import caption_facts
from cacr.reporting.next_step import next_lines, next_step
from cacr.reporting.page import refresh_report
from cacr.runs.run import Run


def test_the_page_shows_confused_captions_and_weights(captioned: Path, shapes: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(captioned, tmp_path / "run"))
    assert caption_facts(Run.open(run).results) is None
    values = {"data": f"pairs:{shapes}/train.jsonl", "protocol": ("captions",), "workers": 0}
    found, start = evaluate_run(run, values)
    facts = caption_facts(Run.open(run).results)
    assert facts is not None and len(facts["weights"]) == 12
    assert facts["weights"][0][0] == found.details["weights"][0]["caption"] == "a red disc"
    for row in found.details["weights"]:
        weights = [each["weight"] for each in row["most"]]
        assert len({each["caption"] for each in row["most"]}) == 3 and weights == sorted(weights)[::-1]
    assert len(start.details["confused"]) > len(facts["confused"]) == len(found.details["confused"])
    page = refresh_report(run).read_text(encoding="utf-8")
    assert facts["weights"][0][2][:20] in page and "Captions of other images that an image is pushed" in page


def test_what_comes_next_keeps_the_words(captioned: Path, shapes: Path, tmp_path: Path) -> None:
    """Other formats than ONNX would leave the text side behind."""
    run = Path(shutil.copytree(captioned, tmp_path / "run"))
    first, words, _ = next_lines(Run.open(run))
    assert first.endswith("--protocol captions") and "search by words: cacr search" in words
    values = {"data": f"pairs:{shapes}/train.jsonl", "protocol": ("captions",), "workers": 0}
    evaluate_run(run, values)
    assert "--to onnx" in next_step(Run.open(run)).command


def test_damaged_details_leave_the_page_without_them(captioned: Path) -> None:
    from cacr.runs.result import Result

    empty: dict[str, dict[str, Any]] = {name: {} for name in ("counts", "settings", "encoder", "training")}
    result = Result(
        *("captions", "encoder", 0.5, None, "a", "a", "a", None),
        seed=0,
        details={"confused": 3, "weights": []},
        **empty,
    )
    assert caption_facts([result]) is None
