import pytest

from cacr.config import PretrainSettings
from cacr.errors import SettingsError
from cacr.reading.settings import parse_assignment
from cacr.training.settings.check import check_settings


def test_names_find_their_place() -> None:
    settings = check_settings({"data": "digits", "views": "4", "t_neg": 3, "grey": 0.1, "lr": "1e-2"})
    assert settings.views == 4
    assert settings.lr == 0.01
    assert settings.objective_options == {"t_neg": 3}
    assert settings.view_options == {"grey": 0.1}


def test_none_is_no_value_where_there_may_be_none() -> None:
    settings = check_settings({"data": "x", "feature_view": "none", "hidden": "none", "clip_grad": "none"})
    assert (settings.feature_view, settings.hidden, settings.clip_grad) == (None, None, None)
    assert check_settings({"data": "x", "imbalance": "none", "predictor": "none"}).imbalance == "none"
    with pytest.raises(SettingsError, match="dim"):
        check_settings({"data": "x", "dim": "none"})


def test_options_of_local_crops_belong_to_presets_that_have_some() -> None:
    settings = check_settings({"data": "x", "preset": "multicrop-swav", "local_size": 48})
    assert settings.view_options == {"local_size": 48}
    with pytest.raises(SettingsError, match="local_size"):
        check_settings({"data": "x", "preset": "cifar", "local_size": 48})


def test_local_keys_need_local_crops() -> None:
    settings = check_settings({"data": "x", "preset": "multicrop-cacr", "local_keys": True})
    assert settings.objective_options == {"local_keys": True}
    with pytest.raises(SettingsError, match="no effect without local crops: use a preset that has them"):
        check_settings({"data": "x", "preset": "cifar", "local_keys": True})


def test_an_option_belongs_to_the_chosen_objective() -> None:
    assert check_settings({"data": "x", "objective": "info_nce", "temperature": 0.2}).objective_options == {
        "temperature": 0.2
    }
    with pytest.raises(SettingsError, match="no setting 'temperature'"):
        check_settings({"data": "x", "objective": "cacr", "temperature": 0.2})


def test_an_option_of_something_not_chosen_is_told_where_it_belongs() -> None:
    with pytest.raises(SettingsError, match="no setting 'fnc_top'; it belongs to objective info_nce"):
        check_settings({"data": "x", "fnc_top": 3})


def test_an_unreadable_option_hides_no_other_problem() -> None:
    wrong = {"data": "x", "framework": "queue", "queue_size": "abc", "encoder": "resnt18", "preset": "zz"}
    with pytest.raises(SettingsError) as caught:
        check_settings(wrong)
    assert [name in str(caught.value) for name in ("queue_size must be", "resnt18", "zz")] == [True] * 3


def test_all_wrong_settings_are_told_at_once_with_the_nearest_names() -> None:
    wrong = {
        "data": "x",
        "views": 1,
        "batch_size": 1,
        "epochs": -3,
        "t_neg": -1.0,
        "encoder": "small_alexnett",
        "framework": "in_batsh",
        "preset": "cifra",
        "imbalance": "lineal",
        "bach_size": 4,
        "grey": 2,
    }
    with pytest.raises(SettingsError) as caught:
        check_settings(wrong)
    text = str(caught.value)
    for part in (
        "views must be greater than or equal to 2 (got 1)",
        "batch_size must be greater than or equal to 2",
        "epochs must be greater than or equal to 1 (got -3)",
        "t_neg",
        "no encoder 'small_alexnett'; did you mean small_alexnet",
        "no framework 'in_batsh'; did you mean in_batch",
        "no preset 'cifra'; did you mean cifar",
        "lineal",
        "no setting 'bach_size'; did you mean batch_size",
        "grey",
    ):
        assert part in text, part
    assert len(caught.value.problems) == len(wrong) - 1


def test_values_of_set_are_read_as_what_they_look_like() -> None:
    assert parse_assignment("t_neg=4") == ("t_neg", 4)
    assert parse_assignment("scale=[0.2, 1.0]") == ("scale", [0.2, 1.0])
    assert parse_assignment("negatives=cross") == ("negatives", "cross")
    assert parse_assignment("a=b=c") == ("a", "b=c")


def test_every_setting_is_described() -> None:
    assert all(field.description for field in PretrainSettings.model_fields.values())


@pytest.mark.parametrize("probe", ["probe_every_epochs", "probe_every_steps"])
def test_probes_without_diagnostics_are_refused(probe: str) -> None:
    check_settings({"data": "digits", probe: 2})
    with pytest.raises(SettingsError, match=f"{probe} has no effect with measure_every_epochs=0"):
        check_settings({"data": "digits", probe: 2, "measure_every_epochs": 0})
