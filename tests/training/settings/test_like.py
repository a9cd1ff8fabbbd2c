"""A new run with the settings of another."""

from pathlib import Path
from typing import Any

import pytest

from cacr.errors import SettingsError, UserError
from cacr.reading.settings import read_settings_file
from cacr.runs.folder import RunFolder
from cacr.runs.run import Run
from cacr.training.pretrain import pretrain
from cacr.training.settings.of_run import settings_of_new
from tests.conftest import TINY, refused, resolved
from tests.conftest import Run as RunCommand


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The folder of a run of which a time chose the steps."""
    folder = RunFolder(tmp_path / "other")
    folder.create()
    given = {"views": 3, "lr": 0.7, "seed": 5, "devices": 2, "batch_size": 16, "imbalance": "none"}
    settings = resolved(**given, objective_options={"t_neg": 1.5}, data_root=tmp_path / "there")
    chosen = {"time": "30m", "epochs": 7, "max_steps": 400, "data": str(tmp_path / "there")}
    folder.write_settings(settings.model_copy(update=chosen), {})
    return folder.path


def _like(other: Path, tmp_path: Path, **given: Any) -> Any:
    return settings_of_new(RunFolder(tmp_path / "new"), {"data": "here", **given}, other)


def test_what_it_learned_with_is_taken_and_data_seed_and_place_are_not(other: Path, tmp_path: Path) -> None:
    found, stored = _like(other, tmp_path), Run.open(other).settings
    assert (found.data, found.seed, found.devices) == ("here", 0, 1)
    assert str(found.data_root) == "data"
    for name in (
        "encoder",
        "width",
        "image_size",
        "views",
        "lr",
        "epochs",
        "max_steps",
        "held_out",
        "precision",
    ):
        assert getattr(found, name) == getattr(stored, name), name
    assert found.objective_options["t_neg"] == 1.5


def test_what_is_given_wins(other: Path, tmp_path: Path) -> None:
    found = _like(other, tmp_path, seed=1, views=4, t_neg=3.0)
    assert (found.seed, found.views, found.objective_options["t_neg"]) == (1, 4, 3.0)
    assert found.max_steps == 400


def test_options_fall_away_with_what_they_belong_to(other: Path, tmp_path: Path) -> None:
    assert "t_neg" not in _like(other, tmp_path, objective="info_nce").objective_options


@pytest.mark.parametrize(
    ("given", "expected"), [({"epochs": 3}, (3, None, None)), ({"max_steps": 9}, ("auto", 9, None))]
)
def test_another_length_replaces_the_whole_length(
    given: dict[str, int], expected: tuple[Any, ...], other: Path, tmp_path: Path
) -> None:
    found = _like(other, tmp_path, **given)
    assert (found.epochs, found.max_steps, found.time) == expected


def test_another_rate_for_256_images_replaces_the_rate(other: Path, tmp_path: Path) -> None:
    found = _like(other, tmp_path, base_lr=0.1)
    assert (found.base_lr, found.lr) == (0.1, "auto")


@pytest.mark.parametrize("given", [{"time": "30m"}, {"recipe": "cifar10-cl"}])
def test_a_time_or_a_recipe_beside_it_is_refused(given: dict[str, str], other: Path, tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=f"cannot be combined with {next(iter(given))}: give only one of them"
    ):
        _like(other, tmp_path, **given)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        _like(tmp_path, tmp_path)


def test_the_stored_settings_of_a_timed_run_can_be_used_as_a_file(other: Path, tmp_path: Path) -> None:
    values = read_settings_file(RunFolder(other).config)
    found = settings_of_new(RunFolder(tmp_path / "new"), values)
    assert (found.max_steps, found.time) == (400, None)


@pytest.mark.trains
def test_seeds_of_one_run_are_the_same_run_but_for_the_seed(
    run: RunCommand, photos: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    pretrain({"data": str(photos), **TINY, "epochs": 100, "max_steps": 2}, first)
    code, text = run("pretrain", photos, "--like", first, "--seed", 1, "--out", second)
    assert code == 0, text
    one, two = Run.open(first), Run.open(second)
    assert (one.settings.seed, two.settings.seed) == (0, 1)
    assert one.learned == two.learned
    assert two.training.steps == 2
    refused(
        run,
        ["pretrain", photos, "--like", first, "--time", "1m", "--out", tmp_path / "third"],
        "--like copies",
    )
    refused(run, ["pretrain", "--like", first, "--out", tmp_path / "third"], "data is missing")
