"""Recipes: the experiments of the paper, and the demo, as complete settings (``cacr pretrain --recipe NAME``).

A recipe is a method on given data, with the sizes, rates and lengths of a publication.
``docs/explanation/methods.md`` explains the choices that the paper leaves open. Settings that the user gives override
the recipe. ``references/NAME.json`` holds measurements of finished runs of a recipe (``benchmarks/reference.py``); the
report of a run with this recipe draws them behind the curves of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cacr.methods import METHODS
from cacr.registry import Registry
from cacr.training.settings.described import Described


@dataclass(frozen=True)
class Recipe:
    """A complete training.

    Attributes:
        name: name on the command line.
        summary: one line for listings.
        data: the training data, as far as it is known without the files.
        settings: names and values of :class:`cacr.config.PretrainSettings`; includes ``data`` if the name of a data
            set is enough.
    """

    name: str
    summary: str
    data: Described
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        # listings use the first line of the docstring
        object.__setattr__(self, "__doc__", self.summary)


RECIPES: Registry[Recipe] = Registry("recipe")


_MOCO_V2: dict[str, Any] = {
    "framework": "queue",
    "batch_norm": "per_view",
    "sync_batch_norm": False,
    "precision": "float32",
    "encoder": "resnet50",
    "head": "moco_v2",
    "dim": 128,
    "preset": "moco-v2",
    "image_size": 224,
    "optimizer": "sgd",
    "lr": 0.03,
    "weight_decay": 1e-4,
    "schedule": "cosine_epochs",
    "warmup_epochs": 0.0,
}
_MOCO_V3: dict[str, Any] = {
    "framework": "momentum",
    "predictor": "moco_v3",
    "precision": "bf16",
    "dim": 256,
    "hidden": 4096,
    "image_size": 224,
    "batch_size": 4096,
    "schedule": "cosine_after_warmup",
    "sync_batch_norm": True,
}
_SMALL: dict[str, Any] = {
    "precision": "float32",
    "sync_batch_norm": False,
    "framework": "in_batch",
    "encoder": "small_alexnet",
    "width": 1.0,
    "head": "linear",
    "optimizer": "sgd",
    "base_lr": 0.12,
    "weight_decay": 1e-4,
    "schedule": "multistep",
    "milestones": (0.775, 0.85, 0.925),
    "warmup_epochs": 0.0,
    "epochs": 200,
}
_HCL: dict[str, Any] = {
    "precision": "float32",
    "sync_batch_norm": False,
    "framework": "in_batch",
    "encoder": "resnet50",
    "head": "mlp",
    "hidden": 512,
    "preset": "hcl",
    "image_size": 32,
    "optimizer": "adam",
    "lr": 1e-3,
    "weight_decay": 1e-6,
    "schedule": "constant",
    "warmup_epochs": 0.0,
    "batch_size": 256,
    "epochs": 400,
}
_START: dict[str, Any] = {"first_layer": "random", "weights": "paper"}
"""Initial weights of all experiments of the paper."""

_ONE: dict[str, Any] = {"views": 2}
_FOUR: dict[str, Any] = {"views": 5}


_IMAGENET: dict[str, Any] = {
    "encoder": "resnet50",
    "image_size": 224,
    "optimizer": "lars",
    "schedule": "cosine_after_warmup",
    "warmup_epochs": 10.0,
    "sync_batch_norm": True,
    "precision": "float32",
}
"""ResNet-50 on ImageNet, with the settings of the systems that the paper quotes."""


_SIMCLR_VIEWS: dict[str, Any] = {
    "scale": (0.08, 1.0),
    "brightness": 0.8,
    "contrast": 0.8,
    "saturation": 0.8,
    "hue": 0.2,
}
"""SimCLR's strong colour changes and small crops."""


def _add(name: str, summary: str, data: Described, *parts: Mapping[str, Any], **more: Any) -> None:
    settings = dict(_START)
    for part in (*parts, more):
        settings |= part
    RECIPES.register(name)(Recipe(name, summary, data, settings))


def _cacr(t_neg: float, **more: Any) -> dict[str, Any]:
    return _method("cacr", t_pos=1.0, t_neg=t_neg, **more)


def _queue(**more: Any) -> dict[str, Any]:
    return {"framework_options": {"queue_size": 65_536, "ema": 0.999, **more}}


def _method(name: str, **options: Any) -> dict[str, Any]:
    """A method, with given options of its objective."""
    method = METHODS[name]
    merged = {**method.objective_options, **options}
    return {"method": name, "objective": method.objective, "objective_options": merged}


def _objective(name: str, **options: Any) -> dict[str, Any]:
    """An objective that is not a method."""
    return {"objective": name, "objective_options": options}


def _small_scale(data: str, images: int, side: int, size: int, t_one: float, t_four: float) -> None:
    """The paper's small-scale experiments on one data set, and those with ResNet-50."""
    classes = 0 if data == "stl10" else int(data.removeprefix("cifar"))
    described = Described(data, images, side, in_memory=True, classes=classes)
    preset = {"stl10": "stl", "cifar10": "cifar"}.get(data, data)
    small = _SMALL | {"data": data, "preset": preset, "image_size": size}
    hcl = _HCL | {"data": data}
    one, four = {**_ONE, "batch_size": 768}, {**_FOUR, "batch_size": 128}
    upper = {"negatives": "cross_upper"}
    _add(f"{data}-cacr-k1", "small scale: CACR, one positive", described, small, one, _cacr(t_one, **upper))
    _add(
        f"{data}-cacr-k4", "small scale: CACR, four positives", described, small, four, _cacr(t_four, **upper)
    )
    baselines = {
        "cl": ("InfoNCE (CL)", one, _method("simclr", temperature=0.19)),
        "au": (
            "alignment and uniformity (AU-CL)",
            {**one, "batch_norm": "joint"},
            _method("align_uniform", t=2.0),
        ),
        "hn": ("hard negatives (HN-CL)", one, _method("hard_negative", temperature=0.5)),
        "cmc": ("CMC, four positives", four, _method("cmc", temperature=0.19)),
    }
    for name, (summary, views, objective) in baselines.items():
        _add(f"{data}-{name}", f"small scale: {summary}", described, small, views, objective)
    for name, summary, *parts in (
        ("cacr-k1", "CACR, one positive", _ONE, _cacr(t_one, **upper)),
        ("cacr-k4", "CACR, four positives", _FOUR, _cacr(t_four, **upper)),
        ("cl", "InfoNCE (CL)", _ONE, _method("simclr", temperature=0.5)),
        (
            "au",
            "alignment and uniformity (AU-CL)",
            {**_ONE, "batch_norm": "joint"},
            _method("align_uniform", t=2.0),
        ),
        ("hn", "hard negatives (HN-CL)", _ONE, _method("hard_negative", temperature=0.5)),
        ("cmc", "CMC, four positives", _FOUR, _method("cmc", temperature=0.5)),
    ):
        _add(f"{data}-resnet50-{name}", f"ResNet-50, 32 px: {summary}", described, hcl, *parts)


def _moco_v2(data: str, images: int, batch: int, epochs: int) -> None:
    """The paper's MoCo v2 experiments on one data set."""
    described = Described(data, images, 400, in_memory=False)
    base = _MOCO_V2 | {"batch_size": batch, "epochs": epochs}
    one_way = _queue(symmetric=False, in_batch="off")
    both_ways, gathered, local = (_queue(in_batch=kind) for kind in ("off", "gathered", "local"))
    one_way_local = _queue(symmetric=False, in_batch="local")
    info_nce = _method("moco_v2", temperature=0.2)
    cacr = _cacr(2.0, pos_grad=False)
    released = _cacr(2.0, pos_grad=False, queue_grad=False)
    for name, summary, *parts in (
        ("cacr-k1", "CACR, one positive", _ONE, gathered, cacr),
        ("cacr-k4", "CACR, four positives", _FOUR, gathered, cacr),
        (
            "cacr-k4-released",
            "CACR as released: constant queue weights, local negatives",
            _FOUR,
            local,
            released,
        ),
        ("one-way", "MoCo v2 itself", _ONE, one_way, info_nce),
        ("symmetric", "MoCo v2, both directions", _ONE, both_ways, info_nce),
        ("au", "alignment and uniformity", _ONE, one_way_local, _method("align_uniform", t=3.0, align=3.0)),
        ("hn", "hard negatives", _ONE, one_way, _method("hard_negative", temperature=0.5)),
        ("cmc", "CMC, four positives", _FOUR, both_ways, _method("cmc", temperature=0.07)),
    ):
        _add(f"{data}-moco-v2-{name}", f"MoCo v2, ResNet-50: {summary}", described, base, *parts)


def _moco_v3() -> None:
    """The paper's MoCo v3 experiments."""
    described = Described("imagenet", 1_281_167, 400, in_memory=False)
    resnet = _MOCO_V3 | {
        "encoder": "resnet50",
        "head": "moco_v3",
        "optimizer": "lars",
        "base_lr": 0.3,
        "weight_decay": 1.5e-6,
        "epochs": 1000,
        "warmup_epochs": 10.0,
        "framework_options": {"ema": 0.996},
    }
    vit = _MOCO_V3 | {
        "encoder": "vit_base_patch16_224",
        "head": "moco_v3_vit",
        "optimizer": "adamw",
        "base_lr": 1.5e-4,
        "weight_decay": 0.1,
        "epochs": 300,
        "warmup_epochs": 40.0,
        "framework_options": {"ema": 0.99},
    }
    pair: dict[str, Any] = {"preset": "byol", **_ONE}
    crops: dict[str, Any] = {"view_options": {"scale": (0.2, 1.0)}}
    multicrop: dict[str, Any] = {"preset": "multicrop-cacr", "views": 10}
    swav_crops: dict[str, Any] = {"preset": "multicrop-swav", "views": 8}
    cacr = _cacr(2.0, pos_grad=False, negatives="cross")
    # With two keys a query has one or two positives: the authors' code has weights over the queries of a key.
    anchored = _cacr(2.0, pos_grad=False, negatives="cross", pi_anchor="key")
    encoders: tuple[tuple[str, str, dict[str, Any], dict[str, Any], float], ...] = (
        ("resnet50", "ResNet-50", resnet, crops, 1.0),
        ("vit-b16", "ViT-B/16", vit, {}, 0.2),
    )
    for name, title, base, more, temperature in encoders:
        own = _method("moco_v3", temperature=temperature)
        released = _objective("released_moco_v3", temperature=temperature)
        for kind, summary, *parts in (
            ("cacr", "CACR, one positive", pair, more, cacr),
            ("cacr-k4", "CACR, four positives", {**pair, **_FOUR}, more, cacr),
            ("cacr-multicrop", "CACR, two global and eight local crops", multicrop, more, anchored),
            ("cacr-multicrop-swav", "CACR, SwAV's two global and six local crops", swav_crops, anchored),
            ("released", "the authors' released loss", pair, more, released),
            ("released-multicrop", "the authors' released loss, local crops", multicrop, more, released),
            ("infonce", "MoCo v3 itself", pair, more, own),
        ):
            _add(f"imagenet-moco-v3-{name}-{kind}", f"MoCo v3, {title}: {summary}", described, base, *parts)
            if name == "resnet50":  # 1,000 epochs in the released commands, 800 in the paper's text
                text = f"MoCo v3, {title}: {summary}, 800 epochs"
                _add(f"imagenet-moco-v3-{name}-{kind}-800", text, described, base, *parts, epochs=800)


def _imagenet() -> None:
    """The systems that the paper quotes, on ImageNet, with the settings of their own papers."""
    described = Described("imagenet", 1_281_167, 400, in_memory=False)
    simclr: dict[str, Any] = {"head": "simclr", "base_lr": 0.3, "weight_decay": 1e-6, "batch_size": 4096}
    simclr |= {"preset": "moco-v2", "view_options": _SIMCLR_VIEWS, "framework": "in_batch"}
    byol: dict[str, Any] = {
        "head": "byol",
        "predictor": "byol",
        "hidden": 4096,
        "dim": 256,
        "batch_size": 4096,
    }
    byol |= {"preset": "byol", "base_lr": 0.2, "weight_decay": 1.5e-6, "framework": "momentum"}
    byol["framework_options"] = {"ema": 0.996, "ema_schedule": "cosine"}
    simsiam: dict[str, Any] = {"head": "simsiam", "predictor": "simsiam", "hidden": 2048, "dim": 2048}
    simsiam |= {"preset": "moco-v2", "optimizer": "sgd", "base_lr": 0.05, "weight_decay": 1e-4}
    simsiam |= {"batch_size": 256, "warmup_epochs": 0.0, "framework": "siamese"}
    swav: dict[str, Any] = {
        "head": "simclr",
        "hidden": 2048,
        "dim": 128,
        "base_lr": 0.3,
        "weight_decay": 1e-6,
    }
    swav |= {"batch_size": 4096, "final_lr": 0.0006 / 4.8, "framework": "prototypes"}
    swav["framework_options"] = {
        "prototypes": 3000,
        "frozen_steps": 313,
        "queue_size": 0,
        "queue_from_epoch": 15,
    }
    twins: dict[str, Any] = {"head": "barlow_twins", "hidden": 8192, "dim": 8192, "preset": "byol"}
    twins |= {"batch_size": 2048, "base_lr": 0.2, "bias_base_lr": 0.0048, "weight_decay": 1.5e-6}
    twins |= {"framework": "in_batch"}
    crops: dict[str, Any] = {"preset": "multicrop-swav", "views": 8, "view_options": {}}
    colours = {**_SIMCLR_VIEWS, "scale": (0.14, 1.0)}  # SwAV has SimCLR's colours, and larger crops
    alone: dict[str, Any] = {"preset": "moco-v2", "view_options": colours, **_ONE}
    published = _method("swav", temperature=0.1)
    for name, summary, epochs, *parts in (
        ("simclr", "SimCLR", 1000, simclr, _ONE, _method("simclr", temperature=0.1)),
        ("byol", "BYOL", 1000, byol, _ONE, _method("byol")),
        ("simsiam", "SimSiam", 200, simsiam, _ONE, _method("simsiam")),
        ("swav", "SwAV, two crops", 800, swav, alone, published),
        ("swav-multicrop", "SwAV, two global and six local crops", 800, swav, crops, published),
        ("barlow-twins", "Barlow Twins", 1000, twins, _ONE, _method("barlow_twins")),
        ("fnc", "FNC", 1000, simclr, _ONE, _method("fnc")),
        ("fnc-multicrop", "FNC, two global and six local crops", 1000, simclr, crops, _method("fnc")),
    ):
        title = f"ResNet-50: {summary}"
        _add(f"imagenet-{name}", title, described, _IMAGENET, {"epochs": epochs}, *parts)


def _demo() -> None:
    """The recipe of ``cacr demo``: minutes on a CPU."""
    digits: dict[str, Any] = {"data": "digits", "imbalance": "linear", "width": 0.25, "epochs": 8}
    # By benchmarks/digits.py: the nearest negatives of a digit are mostly of its own class.
    digits |= {"base_lr": 0.12} | _method("cacr", t_neg=1.0)
    described = Described("digits", 2200, 28, in_memory=True)
    summary = "the demo: CACR from the default start, four positives"
    RECIPES.register("digits-cacr-k4")(Recipe("digits-cacr-k4", summary, described, digits))


_demo()


def _cc3m() -> None:
    """Table A12; what the paper leaves open (warm-up, decay, t-) is taken from open_clip or from cacr's defaults."""
    described = Described("cc3m", 3_318_333, 400, in_memory=False, captions=1)
    common: dict[str, Any] = {
        "framework": "image_text",
        "framework_options": {"text_width": 512, "text_layers": 12, "text_context": 77},
        "encoder": "resnet50",
        "head": "linear",
        "dim": 1024,
        "preset": "clip",
        "view_options": {"scale": (0.9, 1.0)},
        "image_size": 224,
        "views": 1,
        "batch_size": 2048,
        "epochs": 32,
        "optimizer": "adamw",
        "lr": 5e-4,
        "weight_decay": 0.1,
        "schedule": "cosine",
        "warmup_epochs": 1.0,
        "precision": "bf16",
    }
    _add("cc3m-clip-rn50", "CLIP, ResNet-50 on CC3M", described, common, method="clip", objective="clip")
    _add(
        "cc3m-cacr-rn50",
        "CACR between images and captions, ResNet-50 on CC3M",
        described,
        common,
        method="cacr_text",
        objective="cacr",
        objective_options={"t_neg": 2.0},
    )


_small_scale("cifar10", images=50_000, side=32, size=32, t_one=2.0, t_four=0.9)
_small_scale("cifar100", images=50_000, side=32, size=32, t_one=3.0, t_four=2.0)
_small_scale("stl10", images=105_000, side=96, size=64, t_one=3.0, t_four=2.0)
_moco_v2("imagenet100", images=126_689, batch=128, epochs=200)
_moco_v2("imagenet", images=1_281_167, batch=256, epochs=200)
_moco_v2("webvision", images=2_446_037, batch=256, epochs=100)
_moco_v2("imagenet22k", images=14_197_122, batch=256, epochs=20)
_moco_v3()
_imagenet()
_cc3m()
