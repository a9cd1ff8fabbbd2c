"""Two processes that evaluate together."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from cacr.evaluation import evaluate_run, read_results
from tests.evaluation.conftest import write_images

pytestmark = pytest.mark.trains


@pytest.mark.parametrize("kind", ["files", pytest.param("arrays", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("from_server")
def test_two_processes_give_the_numbers_of_one(run: Path, tmp_path: Path, kind: str) -> None:
    if kind == "files":
        for part, count in (("train", 11), ("test", 7)):
            write_images(tmp_path / "data" / part, per_class=count, seed=count)
        data = {"data": str(tmp_path / "data")}
    else:
        generator = np.random.default_rng(0)
        for name, count in (("train", 33), ("test", 21)):
            labels = np.arange(count) % 3
            pixels = generator.integers(0, 150, (count, 20, 20, 3)).astype(np.uint8)
            pixels[np.arange(count), :, :, labels] += 60
            np.savez(tmp_path / f"{name}.npz", x=pixels, y=labels)
        data = {"data": str(tmp_path / "train.npz"), "test_data": str(tmp_path / "test.npz")}
    values = {
        **data,
        "protocol": ("knn", "linear", "fewshot", "linear-moco"),
        "batch_size": 8,  # 33 and 21 images leave a last batch of one and of five
        "linear-moco.batch_size": 16,
        "linear-moco.epochs": 2,
        "search": "quick",
        "workers": 0,
        "accelerator": "cpu",
        "k": 3,
    }
    alone = evaluate_run(run, values)
    shutil.rmtree(run / "evaluation")
    together = evaluate_run(run, {**values, "devices": 2})
    # or a later error would be taken for one of several processes, and not be told
    assert not {"MASTER_ADDR", "MASTER_PORT"} & os.environ.keys()
    assert [result.score for result in together] == [result.score for result in alone]
    assert [result.counts for result in together] == [result.counts for result in alone]
    assert len(read_results(run / "evaluation")) == 4
