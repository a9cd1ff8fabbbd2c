"""Recipes: complete, and what a dry run says of them."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from cacr.cli import app
from cacr.config import ResolvedSettings
from cacr.errors import UserError
from cacr.losses.released import released_small_scale
from cacr.training.dry_run import dry_run
from cacr.training.pretrain import pretrain
from cacr.training.settings.check import check_settings
from cacr.training.settings.layers import with_recipe
from cacr.training.settings.recipes import RECIPES
from cacr.training.settings.resolve import resolve
from cacr.views import PRESETS

SMALL_SCALE = ("cifar10", "cifar100", "stl10")


DEMO = "digits-cacr-k4"
"""The one recipe that is not of the paper: it is what a run without a recipe does."""


@pytest.mark.parametrize("name", [name for name in RECIPES if "vit" not in name and name != DEMO])
def test_every_recipe_resolves_and_leaves_nothing_to_a_rule(name: str) -> None:
    recipe = RECIPES[name]
    asked = check_settings({"data": recipe.data.name, **with_recipe({"recipe": name})})
    settings = resolve(asked, recipe.data, world_size=8, device=torch.device("cpu"))
    assert (settings.recipe, settings.objective_options) == (name, asked.objective_options)
    for setting in ("encoder", "preset", "views", "batch_size", "epochs", "schedule", "weight_decay", "head"):
        assert getattr(asked, setting) == getattr(settings, setting) != "auto", setting
    assert (settings.first_layer, settings.weights) == ("random", "paper")
    assert settings.head != "normed"


@pytest.mark.parametrize(
    ("name", "lr", "batch", "views", "epochs"),
    [
        ("cifar10-cacr-k1", 0.36, 768, 2, 200),
        ("cifar100-cacr-k4", 0.06, 128, 5, 200),
        ("stl10-resnet50-cl", 1e-3, 256, 2, 400),
        ("imagenet-moco-v2-cacr-k4", 0.03, 256, 5, 200),
        ("imagenet100-moco-v2-one-way", 0.03, 128, 2, 200),
        ("imagenet-byol", 3.2, 4096, 2, 1000),
        ("imagenet-simsiam", 0.05, 256, 2, 200),
        ("imagenet-swav-multicrop", 4.8, 4096, 8, 800),
        ("imagenet-barlow-twins", 1.6, 2048, 2, 1000),
        ("imagenet-moco-v3-resnet50-cacr-multicrop-swav-800", 4.8, 4096, 8, 800),
        ("webvision-moco-v2-cacr-k1", 0.03, 256, 2, 100),
        ("imagenet22k-moco-v2-cacr-k1", 0.03, 256, 2, 20),
        ("imagenet-moco-v3-resnet50-cacr", 4.8, 4096, 2, 1000),
        ("imagenet-moco-v3-vit-b16-cacr", 2.4e-3, 4096, 2, 300),
    ],
)
def test_recipes_have_the_numbers_of_the_paper(
    name: str, lr: float, batch: int, views: int, epochs: int
) -> None:
    data = RECIPES[name].data
    asked = check_settings({"data": data.name, **with_recipe({"recipe": name})})
    settings = resolve(asked, data, world_size=8, device=torch.device("cpu"))
    assert settings.lr == pytest.approx(lr)
    assert (settings.batch_size, settings.views, settings.epochs) == (batch, views, epochs)


def _resolved(name: str) -> ResolvedSettings:
    data = RECIPES[name].data
    asked = check_settings({"data": data.name, **with_recipe({"recipe": name})})
    return resolve(asked, data, world_size=8, device=torch.device("cpu"))


ONE_WAY = [name for name in RECIPES if re.fullmatch(r".*-moco-v2-(au|hn)", name)]
JOINT = [name for name in RECIPES if re.fullmatch(r".*-au", name) and "moco-v2" not in name]
LOCAL_CROPS = [name for name in RECIPES if "-cacr-multicrop" in name]
CHOICES = [
    *((name, "framework_options", "symmetric", False) for name in ONE_WAY),
    *((name, "objective_options", "pi_anchor", "key") for name in LOCAL_CROPS),
    *(
        (name, "objective_options", "temperature", 0.1)
        for name in RECIPES
        if name.startswith("imagenet-swav")
    ),
]


@pytest.mark.parametrize(("name", "options", "option", "value"), CHOICES)
def test_recipes_choose_where_the_paper_leaves_open(name: str, options: str, option: str, value: Any) -> None:
    """One direction, as in the sources of AU-CL and HN-CL; weights over the queries of a key, as released."""
    assert getattr(_resolved(name), options)[option] == value


def test_the_choices_are_those_of_all_these_recipes() -> None:
    assert (len(ONE_WAY), len(JOINT), len(LOCAL_CROPS)) == (2 * 4, 2 * 3, 2 * 2 + 2)


@pytest.mark.parametrize("name", JOINT)
def test_both_views_of_au_cl_have_joint_statistics(name: str) -> None:
    assert _resolved(name).batch_norm == "joint"


COLOURS = ("brightness", "contrast", "saturation", "hue")


@pytest.mark.parametrize(
    ("name", "scale", "colours"),
    [
        ("imagenet-simclr", (0.08, 1.0), (0.8, 0.8, 0.8, 0.2)),
        ("imagenet-swav", (0.14, 1.0), (0.8, 0.8, 0.8, 0.2)),
        ("imagenet-swav-multicrop", (0.14, 1.0), (0.8, 0.8, 0.8, 0.2)),
        ("imagenet-moco-v3-resnet50-cacr", (0.2, 1.0), (0.4, 0.4, 0.2, 0.1)),
        ("imagenet-moco-v3-resnet50-cacr-multicrop", (0.2, 1.0), (0.4, 0.4, 0.2, 0.1)),
        ("imagenet-moco-v3-resnet50-cacr-multicrop-800", (0.2, 1.0), (0.4, 0.4, 0.2, 0.1)),
        ("imagenet-moco-v3-resnet50-released-multicrop", (0.2, 1.0), (0.4, 0.4, 0.2, 0.1)),
        ("imagenet-moco-v3-vit-b16-cacr-multicrop", (0.08, 1.0), (0.4, 0.4, 0.2, 0.1)),
    ],
)
def test_recipes_have_the_crops_and_colours_of_their_source(
    name: str, scale: tuple[float, float], colours: tuple[float, ...]
) -> None:
    settings = _resolved(name)
    for view in PRESETS[settings.preset].with_options(**settings.view_options).views:
        assert view.scale == scale
        assert tuple(getattr(view, colour) for colour in COLOURS) == colours


PUBLISHED = {"moco_v3": 4096, "moco_v3_vit": 4096, "byol": 4096, "simsiam": 2048, "barlow_twins": 8192}


def test_recipes_keep_the_published_widths_of_heads_whatever_the_features() -> None:
    wide = {name: with_recipe({"recipe": name}) for name in RECIPES}
    wide = {name: values for name, values in wide.items() if values.get("head") in PUBLISHED}
    assert {values["head"] for values in wide.values()} == set(PUBLISHED)
    assert {n: v["hidden"] for n, v in wide.items()} == {n: PUBLISHED[v["head"]] for n, v in wide.items()}


def test_the_papers_t_neg_is_said_where_it_is_used() -> None:
    """The docstring attributes to the paper what the recipes take from it."""
    said = re.findall(
        r"t- = ([\d.]+), ([\d.]+), ([\d.]+)", str(released_small_scale.__doc__).split("paper", 1)[1]
    )
    used = [
        [with_recipe({"recipe": f"{data}-cacr-k{k}"})["objective_options"]["t_neg"] for data in SMALL_SCALE]
        for k in (1, 4)
    ]
    assert [[float(value) for value in values] for values in said] == used == [[2, 3, 3], [0.9, 2, 2]]


def test_what_is_given_wins_and_options_go_with_their_owner() -> None:
    given = {"recipe": "cifar10-cacr-k4", "t_neg": 3.0, "epochs": 7}
    settings = check_settings(with_recipe(given))
    assert settings.objective_options == {"t_pos": 1.0, "t_neg": 3.0, "negatives": "cross_upper"}
    assert (settings.epochs, settings.batch_size) == (7, 128)
    other = check_settings(with_recipe({"recipe": "cifar10-cacr-k4", "objective": "info_nce"}))
    assert (other.objective, other.objective_options, other.views) == ("info_nce", {}, 5)


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(UserError, match="no recipe 'cifar10-cacr-k3'; did you mean cifar10-cacr-k"):
        dry_run({"recipe": "cifar10-cacr-k3"})


def _row(output: str, name: str) -> str:
    return next(line for line in output.splitlines() if line.startswith(name))[12:]


def test_a_dry_run_needs_neither_data_nor_a_folder() -> None:
    command = ["pretrain", "--recipe", "imagenet-moco-v2-cacr-k1", "--dry-run", "--devices", "8"]
    result = CliRunner(env={"COLUMNS": "250"}).invoke(app, command)
    assert result.exit_code == 0, result.output
    # ResNet-50 without classifier, and a head of 2048 x 2048 and 2048 x 128 with biases
    count = 23_508_032 + 2048 * 2048 + 2048 + 2048 * 128 + 128
    assert _row(result.output, "parameters").startswith(f"{count:,} trained, {count:,} not trained")
    assert _row(result.output, "negatives").startswith(
        "65,791 per query: the queue (full after 256 steps), and"
    )
    assert _row(result.output, "queue ") == "0.034 GB for 65,536 keys"
    assert _row(result.output, "processes") == "8, 32 of 256 images in each"
    assert _row(result.output, "steps") == "5,005 per epoch, 1,001,000 in total; 512,512,000 views"
    assert _row(result.output, "lr") == "0.03 (= 0.03 x 256 / 256)"
    assert "'t_neg': 2.0" in result.output
    assert "  schedule: cosine_epochs" in result.output


def test_a_dry_run_counts_all_batches_of_a_step_that_fill_a_queue() -> None:
    values = {"data": "digits", "framework": "queue", "batch_size": 64, "queue_size": 640, "max_steps": 10}
    for accumulate, steps in ((1, 10), (4, 3)):
        lines = "\n".join(dry_run({**values, "accumulate": accumulate, "width": 0.05}))
        assert f"(full after {steps} steps)" in _row(lines, "negatives")


def test_a_dry_run_counts_the_memory_of_a_step() -> None:
    lines = "\n".join(dry_run({"recipe": "cifar10-cacr-k4"}))
    assert _row(lines, "parameters").startswith("27,221,088 ")
    more = "\n".join(dry_run({"recipe": "cifar10-cacr-k4", "batch_size": 256}))
    both = [float(_row(text, "memory").split("step ")[1].split()[0]) for text in (lines, more)]
    assert 1.6 < both[1] / both[0] < 2.05  # all but the gradients of the weights


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RECIPES if "vit" in name])
def test_every_transformer_recipe_has_a_dry_run(name: str) -> None:
    lines = dry_run({"recipe": name, "devices": 64})
    assert "  positions: fixed" in lines and "  patches: frozen" in lines


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("imagenet-swav-multicrop", "2 per image, 224 px and 6 local crops, 96 px, preset multicrop-swav"),
        ("imagenet-byol", "2 per image, 224 px, preset byol"),
    ],
)
def test_a_dry_run_says_how_many_views_have_which_size(recipe: str, words: str) -> None:
    assert any(line.startswith("views") and words in line for line in dry_run({"recipe": recipe}))


def test_without_a_dry_run_a_folder_is_needed() -> None:
    result = CliRunner().invoke(app, ["pretrain", "--recipe", "cifar10-cl"])
    assert isinstance(result.exception, UserError) and "--out is missing" in str(result.exception)


def test_a_dry_run_counts_the_images_that_the_run_will_train_on(tmp_path: Path) -> None:
    values = {"data": "digits", "imbalance": "linear", "framework": "queue", "batch_size": 128, "epochs": 8}
    lines = dry_run(values)
    assert any(line.startswith("data") and "2,200 images" in line for line in lines)
    assert "  framework_options: {'queue_size': 1024, 'ema': 0.9706}" in lines
    with pytest.raises(UserError, match="queue_size=3072 is larger than the data set of 2200 images"):
        pretrain({**values, "queue_size": 3072}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_dry_run_counts_what_an_imbalance_rule_leaves_without_the_data() -> None:
    lines = dry_run({"recipe": "cifar10-cacr-k4", "imbalance": "exponential"})
    assert any(line.startswith("data") and "7,904 images" in line for line in lines)
    with pytest.raises(UserError, match="those of stl10 are not known"):
        dry_run({"recipe": "stl10-cacr-k4", "imbalance": "linear"})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"init": "missing.safetensors"}, "no run folder or weights file"),
        ({"init": "timm", "encoder": "resnet18"}, "--download"),
        ({"accelerator": "cuda"}, "no CUDA device"),
    ],
)
def test_a_dry_run_looks_at_initial_weights_and_the_accelerator(values: dict[str, str], words: str) -> None:
    if "accelerator" in values and torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(UserError, match=words):
        dry_run({"data": "digits", "max_steps": 10, **values})


def test_recipes_fix_the_precision_and_name_their_method() -> None:
    for name in RECIPES:
        if name != DEMO:
            settings = check_settings({"data": "x", **with_recipe({"recipe": name})})
            assert settings.precision in ("float32", "bf16"), name
            assert settings.method is not None or settings.objective == "released_moco_v3", name
