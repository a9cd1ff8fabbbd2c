"""Which images are judged on."""

from pathlib import Path

import numpy as np
import pytest

from cacr.config import EvaluateSettings
from cacr.errors import UserError
from cacr.evaluation.data.labelled import open_labelled
from tests.evaluation.conftest import write_images


@pytest.fixture
def parted(tmp_path: Path) -> Path:
    """A folder with twenty training images of each of two classes, and four test images of each."""
    for seed, (part, count) in enumerate((("train", 20), ("test", 4))):
        write_images(tmp_path / "data" / part, count, seed, ("red", "blue"))
    return tmp_path / "data"


def test_held_out_images_are_training_images_and_the_test_part_is_left_alone(parted: Path) -> None:
    usual = open_labelled(EvaluateSettings(data=str(parted)))
    assert (len(usual.train), len(usual.test), usual.held_out) == (40, 8, False)
    chosen = open_labelled(EvaluateSettings(data=str(parted), held_out=True))
    assert (len(chosen.train), len(chosen.test), chosen.held_out) == (32, 8, True)
    paths = {name: {str(path) for path in getattr(chosen, name).paths} for name in ("train", "test")}
    assert all(Path(path).parts[-3] == "train" for path in paths["train"] | paths["test"])
    assert not paths["train"] & paths["test"]
    assert np.bincount(chosen.test_labels).tolist() == [4, 4]
    again = open_labelled(EvaluateSettings(data=str(parted), held_out=True, seed=1))
    assert {str(path) for path in again.test.paths} != paths["test"]  # type: ignore[attr-defined]


def test_held_out_and_other_test_images_contradict_each_other(parted: Path) -> None:
    with pytest.raises(UserError, match="leave out test_data, or held_out"):
        open_labelled(EvaluateSettings(data=str(parted), test_data=str(parted), held_out=True))
