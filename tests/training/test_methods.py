"""Every method by its name: made of what it says, settings beside it win, and a killed run resumes to the bit."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from cacr.cli import app
from cacr.errors import SettingsError, UserError
from cacr.frameworks import FRAMEWORKS
from cacr.losses import OBJECTIVES
from cacr.methods import METHODS, Method
from cacr.runs.run import Run
from cacr.training.building.checkpoints import list_checkpoints, load_checkpoint
from cacr.training.building.networks import build_method
from cacr.training.dry_run import dry_run
from cacr.training.pretrain import pretrain
from cacr.training.settings.check import check_settings
from cacr.training.settings.described import Described
from cacr.training.settings.layers import with_recipe
from cacr.training.settings.of_run import completed
from cacr.training.settings.resolve import resolve
from tests.conftest import TEXT, TINY
from tests.started import server

PAPER = {
    "simclr",
    "simclr_v2",
    "moco_v2",
    "moco_v3",
    "byol",
    "simsiam",
    "swav",
    "barlow_twins",
    "fnc",
    "ascl",
}
PAPER |= {"adaclr", "align_uniform", "hard_negative", "cmc", "cacr"}

ENDLESS = {
    **TINY,
    "epochs": 1_000_000,
    "lr": 0.02,
    "schedule": "constant",
    "warmup_epochs": 0,
    "checkpoint_every_steps": 1,
    "first_layer": "random",
    "held_out": 0,
}
"""A run that no machine ends before it is killed, and whose steps do not depend on how many there will be."""

OPTIONS = {
    "queue": {"queue_size": 8, "ema": 0.9},
    "momentum": {"ema": 0.9, "ema_schedule": "constant"},
    "prototypes": {"queue_size": 16, "queue_from_epoch": 1, "frozen_steps": 2, "prototypes": 5},
    "image_text": TEXT,
}
"""Of frameworks whose defaults follow from the length of a run, or would make it long."""


def _values(method: str) -> dict[str, Any]:
    chosen = METHODS[method]
    more: dict[str, Any] = dict(OPTIONS.get(chosen.framework, {}))
    if chosen.objective == "adaclr":
        more["neighbours_from"] = 0.0  # else it depends on how long the run will be
    return {**ENDLESS, **more, "views": chosen.settings.get("views", 3), "method": method}


def test_every_system_of_the_tables_is_a_method() -> None:
    assert set(METHODS) == PAPER | {"triplet", "vicreg", "lejepa", "clip", "cacr_text"}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_made_of_what_there_is(name: str) -> None:
    method = METHODS[name]
    settings = check_settings(with_recipe({"data": "x", "method": name}))
    assert (settings.method, settings.framework, settings.objective) == (
        name,
        method.framework,
        method.objective,
    )
    assert settings.framework_options == dict(method.framework_options)
    assert settings.objective_options == dict(method.objective_options)
    OBJECTIVES[method.objective](**method.objective_options)
    assert method.framework_options.keys() <= set(FRAMEWORKS[method.framework].option_names())


def test_a_method_decides_nothing_about_the_data() -> None:
    with pytest.raises(ValueError, match="cannot set preset"):
        Method("x", "y", "in_batch", "cacr", settings={"preset": "cifar"})


def test_what_is_given_beside_a_method_wins() -> None:
    given = {"data": "x", "method": "moco_v2", "temperature": 0.5, "in_batch": "gathered", "head": "mlp"}
    settings = check_settings(with_recipe(given))
    assert settings.method == "moco_v2" and settings.head == "mlp"
    assert settings.framework_options == {"symmetric": False, "in_batch": "gathered"}
    assert settings.objective_options == {"temperature": 0.5}


def test_another_framework_or_objective_is_another_method_unless_the_name_is_the_objectives() -> None:
    free = check_settings(with_recipe({"data": "x", "objective": "info_nce"}))
    assert (free.method, free.framework, free.objective_options) == (None, "in_batch", {})
    other = check_settings(with_recipe({"data": "x", "method": "moco_v2", "framework": "in_batch"}))
    assert (other.method, other.framework_options, other.head) == (None, {}, "moco_v2")
    cacr = check_settings(with_recipe({"data": "x", "framework": "queue"}))
    assert (cacr.method, cacr.framework) == ("cacr", "queue")


def test_another_method_takes_away_all_that_a_recipe_has_for_its_own() -> None:
    settings = check_settings(
        with_recipe({"data": "x", "recipe": "imagenet-moco-v2-cacr-k4", "method": "byol"})
    )
    assert (settings.framework, settings.objective, settings.head) == ("momentum", "byol", "byol")
    assert (settings.framework_options, settings.lr, settings.base_lr, settings.views) == (
        {},
        "auto",
        None,
        2,
    )
    assert (settings.encoder, settings.epochs, settings.batch_size) == ("resnet50", 200, 256)


@pytest.mark.trains
def test_another_method_can_be_trained_like_a_run(trained: Path, tmp_path: Path) -> None:
    values = completed({"method": "simsiam", "data": "x"}, like=trained)
    before = Run.open(trained).settings
    assert (values["framework"], values["head"], values["views"]) == ("siamese", "simsiam", 2)
    assert (values["encoder"], values["width"]) == (before.encoder, before.width)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"method": "byol", "queue_size": 64}, "no setting 'queue_size'; it belongs to"),
        ({"method": "byl"}, "no method 'byl'; did you mean byol"),
        ({"method": "swav", "prototypes": 1}, "prototypes=1: every image would have the same assignment"),
        ({"method": "swav", "assigning": 3}, "assigning=3: local crops give no assignments"),
        (
            {"method": "swav", "assigning": 3, "preset": "multicrop-swav", "encoder": "resnet18"},
            "an image has only 2 global views",
        ),
        ({"method": "moco_v2", "queue_size": 100_000 * 64}, "larger than the data set"),
        ({"method": "swav", "queue_size": 10**7}, "larger than the data set"),
        (
            {"method": "barlow_twins", "preset": "multicrop-swav", "encoder": "resnet18"},
            "not support local crops",
        ),
        (
            {"method": "align_uniform", "preset": "multicrop-swav", "encoder": "resnet18"},
            "local crops have none: use other views",
        ),
        ({"method": "ascl", "weak_views": 2}, "at least one view must not be weak"),
        ({"framework": "queue", "objective": "released_moco_v3"}, "cross-view negatives"),
        ({"framework": "in_batch", "objective": "byol"}, "collapses"),
        ({"framework": "in_batch", "objective": "swav"}, "takes scores with prototypes"),
        ({"method": "swav", "frozen_steps": 10}, "prototypes would never be trained in 10 steps"),
        ({"method": "swav", "queue_size": 64, "queue_from_epoch": 3}, "queue would never be used"),
    ],
)
def test_what_does_not_fit_a_method_is_told_before_anything_is_loaded(
    values: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        dry_run({"data": "digits", "batch_size": 64, "max_steps": 10, **values})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"method": "swav", "prototypes": 1}, "prototypes=1"),
        ({"method": "swav", "assigning": 0}, "assigning=0"),
        ({"method": "swav", "queue_size": -1}, "queue_size=-1 must be 0 or above"),
        ({"method": "moco_v2", "ema": 1.5}, r"ema=1.5 must be in \[0, 1\]"),
        ({"method": "byol", "ema": -0.1}, r"ema=-0.1 must be in \[0, 1\]"),
        ({"method": "byol", "temperature": 0.1}, "no setting 'temperature'; it belongs to"),
        ({"method": "SwAV"}, "no method 'SwAV'; did you mean swav"),
        (
            {"method": "simclr", "fnc_top": 5},
            "fnc_top has no effect without false_negatives=eliminate or attract",
        ),
        ({"method": "moco_v2", "fnc_threshold": 0.5}, "fnc_threshold has no effect without false_negatives"),
        ({"method": "cacr", "rbf_t": 3.0}, "rbf_t has no effect without cost=rbf"),
        ({"method": "cacr", "queue_grad": False}, "queue_grad has no effect in framework in_batch"),
        ({"method": "byol", "predictor": "none"}, "predictor=none: framework momentum compares predictions"),
        ({"method": "simclr", "predictor": "byol"}, "framework in_batch has no predictor"),
        ({"method": "vicreg", "preset": "multicrop-swav"}, "not support local crops"),
        ({"method": "moco_v2", "preset": "multicrop-swav"}, "symmetric=false has no use for local crops"),
        ({"framework": "queue", "symmetric": False, "preset": "multicrop-cacr"}, "no use for local crops"),
    ],
)
def test_what_is_wrong_whatever_the_data_is_told_without_looking_at_it(
    values: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        pretrain({"data": str(tmp_path / "no-such-folder"), **values}, tmp_path / "run")
    assert len(caught.value.problems) == 1 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("flag", ["--framework", "--objective"])
def test_there_is_one_flag(flag: str) -> None:
    result = CliRunner().invoke(app, ["pretrain", "digits", flag, "queue", "--dry-run"])
    assert result.exit_code == 2 and "No such option" in result.output


WITHOUT_NEGATIVES = {"byol", "simsiam", "swav", "barlow_twins", "vicreg", "lejepa"}


@pytest.mark.parametrize(
    "name", [name for name in METHODS if not FRAMEWORKS[METHODS[name].framework].reads_captions]
)
def test_methods_without_negatives_say_so_and_others_say_how_many(name: str) -> None:
    values = {"data": "digits", "method": name, "max_steps": 10, "width": 0.05, "batch_size": 64}
    (line,) = (line for line in dry_run(values) if line.startswith("negatives"))
    if name in WITHOUT_NEGATIVES:
        assert line == "negatives   none: no image is compared with another"
    else:
        assert any(word[0].isdigit() for word in line.split())


def test_dim_has_one_meaning() -> None:
    """That of the embeddings, and so of the prototypes."""
    lines = dry_run({"data": "digits", "method": "swav", "dim": 64, "max_steps": 10, "width": 0.05})
    assert "  dim: 64" in lines


def test_wide_heads_are_narrower_for_narrow_encoders() -> None:
    def dims(**values: Any) -> tuple[str, ...]:
        lines = dry_run({"data": "digits", "method": "barlow_twins", "max_steps": 10, **values})
        return tuple(line for line in lines if line.startswith("  dim:"))

    assert dims(width=0.125) == ("  dim: 1024",)
    assert dims(encoder="resnet18") == ("  dim: 2048",)


def test_the_seed_of_a_run_decides_what_its_objective_draws() -> None:
    z, values = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0)), []
    for seed in (0, 0, 1):
        asked = {"data": "x", "method": "lejepa", "seed": seed, "epochs": 1, "first_layer": "random", **TINY}
        data = Described("x", 100, 32, in_memory=True)
        settings = resolve(check_settings(with_recipe(asked)), data, world_size=1, device=torch.device("cpu"))
        method = build_method(settings).method
        method.before_step(3, 10, epoch=0)
        values.append(method.objective(z))
    assert values[0] == values[1] != values[2]


def _train(values: dict[str, Any], out: str, threads: int) -> None:
    torch.set_num_threads(threads)  # sums in another order would be other bits
    pretrain(values, Path(out))


@pytest.mark.trains
@pytest.mark.parametrize("method", METHODS)
def test_every_method_resumes_to_the_bit_after_a_kill(
    method: str, photos: Path, shapes: Path, tmp_path: Path
) -> None:
    captions = FRAMEWORKS[METHODS[method].framework].reads_captions
    values = {"data": f"pairs:{shapes}/test.jsonl" if captions else str(photos), **_values(method)}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = server().Process(target=_train, args=(values, str(killed), torch.get_num_threads()))
    process.start()
    while process.is_alive():
        steps = [step for step, _ in list_checkpoints(killed / "checkpoints")]
        if steps and steps[-1] >= 5:
            break
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    steps = list_checkpoints(killed / "checkpoints")[-1][0] + 2
    assert pretrain({"max_steps": steps}, killed, resume=True).step == steps
    pretrain({**values, "max_steps": steps}, whole)
    states = [load_checkpoint(list_checkpoints(run / "checkpoints")[-1][1]) for run in (killed, whole)]
    assert states[0]["step"] == states[1]["step"] == steps
    for name, tensor in states[1]["method"].items():
        assert torch.equal(tensor, states[0]["method"][name]), name
    memories = [
        [
            x
            for values in state["optimizer"]["state"].values()
            for x in values.values()
            if isinstance(x, torch.Tensor)
        ]
        for state in states
    ]
    assert len(memories[0]) == len(memories[1]) > 0
    assert all(torch.equal(a, b) for a, b in zip(*memories, strict=True))


def test_settings_errors_are_all_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        check_settings(with_recipe({"data": "x", "method": "byl", "encoder": "resnt18"}))
    assert len(caught.value.problems) == 2
