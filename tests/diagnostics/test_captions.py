"""Figures of images and captions, and the verdict on the text side."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cacr.diagnostics.captions import find_collapsed_captions, measure_captions
from cacr.diagnostics.observer import observe
from cacr.reporting.series import charts_for, series_of
from cacr.runs.run import Run
from cacr.training.pretrain import pretrain
from tests.conftest import CAPTIONED, TEXT


def test_figures_are_those_of_a_literal_computation() -> None:
    draw = torch.Generator().manual_seed(0)
    images, texts = (torch.randn(7, 4, generator=draw, dtype=torch.float64) for _ in range(2))
    texts[:3] = 3 * images[:3]
    found = measure_captions(images, texts)
    x, y = ((z / z.norm(dim=1, keepdim=True)).numpy() for z in (images, texts))
    cosines = x @ y.T
    assert found["image_to_text"] == np.mean(cosines.argmax(1) == np.arange(7))
    assert found["text_to_image"] == np.mean(cosines.argmax(0) == np.arange(7))
    apart = [np.sum((y[i] - y[j]) ** 2) for i in range(7) for j in range(7) if i != j]
    assert found["text_distance"] == pytest.approx(np.mean(apart))
    assert found["caption_distance"] == pytest.approx(np.mean(np.sum((x - y) ** 2, axis=1)))


def test_a_text_side_that_tells_nothing_apart_is_named() -> None:
    images, same = torch.randn(8, 4), torch.ones(8, 4)
    point = measure_captions(images, same)
    assert point["text_to_image"] == pytest.approx(1 / 8)  # ties are decided by a fair draw
    name, told, _ = find_collapsed_captions([point]) or ("", [], [])
    assert name == "collapsed to a point" and "cannot tell them apart" in told[0]
    line = measure_captions(images, torch.ones(8, 4) * torch.tensor([[1.0], [-1.0]] * 4))
    assert (find_collapsed_captions([line]) or ("",))[0] == "dimensional collapse"
    assert find_collapsed_captions([measure_captions(images, images)]) is None
    assert find_collapsed_captions([{"loss": 1.0}]) is None  # a run without captions


@pytest.mark.trains
def test_a_run_on_captions_logs_what_finds_what_and_the_page_draws_it(shapes: Path, tmp_path: Path) -> None:
    values = {"data": f"pairs:{shapes}/test.jsonl", "method": "clip", "epochs": 2, **CAPTIONED, **TEXT}
    pretrain(values, tmp_path / "run", observe=observe)
    run = Run.open(tmp_path / "run")
    figures = {
        "image_to_text",
        "text_to_image",
        "caption_distance",
        "text_distance",
        "text_effective_rank",
        "effective_rank",
    }
    measured = [row for row in run.rows if figures <= row.keys()]
    assert measured[0]["step"] == 0 and measured[-1]["step"] == 6
    assert all(0 <= row[name] <= 1 for row in measured for name in ("image_to_text", "text_to_image"))
    drawn = {chart["title"] for chart in charts_for([series_of(run.rows)])}
    assert {"images that find their caption", "captions that find their image"} <= drawn
