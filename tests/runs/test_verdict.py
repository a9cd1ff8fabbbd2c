"""``verdict.json``: what is stored, what is forgotten, and what is refused."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from cacr.errors import UserError
from cacr.runs.verdict import Verdict, in_words, read_verdict, write_verdict


def test_the_file_keeps_the_history_and_forgets_what_a_resumed_run_sees_again(tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    assert read_verdict(file) is None
    for step in (10, 20, 30):
        write_verdict(file, Verdict("healthy", ["fine"], [], step, step / 10))
    write_verdict(file, Verdict("diverging", ["the loss is nan"], ["lower --lr"], 20, 2.0))
    stored = read_verdict(file)
    assert stored is not None
    assert [(past.step, past.verdict) for past in stored.history] == [(10, "healthy"), (20, "diverging")]
    assert asdict(stored) == json.loads(file.read_text())
    assert in_words(stored).splitlines() == [
        "verdict at epoch 2: diverging",
        "  the loss is nan",
        "  try: lower --lr",
    ]


@pytest.mark.parametrize(
    "broken",
    [
        "",
        '{"verdict": "heal',
        "[]",
        '{"evidence": []}',
        '{"verdict": "x", "history": [3]}',
        '{"verdict": "healthy", "evidence": ["a"], "advice": [], "step": 1, "epoch": NaN, "history": []}',
        '{"verdict": "healthy", "evidence": ["a"], "advice": [], "step": true, "epoch": 1, "history": []}',
        '{"verdict": "fine", "evidence": ["a"], "advice": [], "step": 1, "epoch": 1, "history": []}',
    ],
)
def test_a_broken_one_is_named_with_what_to_do(broken: str, tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text(broken)
    with pytest.raises(UserError, match=r"verdict\.json is damaged: .*; remove it"):
        read_verdict(tmp_path / "verdict.json")


def test_text_is_cleaned_when_it_is_read(tmp_path: Path) -> None:
    content = {"verdict": "healthy", "evidence": ["a\x1b[31m\nb"], "advice": ["\x07"], "step": 1, "epoch": 1}
    (tmp_path / "verdict.json").write_text(json.dumps(content | {"history": []}))
    stored = read_verdict(tmp_path / "verdict.json")
    assert stored is not None and (stored.evidence, stored.advice) == ([r"a\x1b[31m\nb"], [r"\x07"])
