"""Methods by name: ``cacr pretrain DATA --method byol``.

A method is a framework, an objective, a head, a predictor, an optimiser and their options, for any data. A recipe is a
method on given data, with the sizes, rates and lengths of a publication. The methods here work for any images and any
length, on one machine. Names of settings are those of :class:`cacr.config.PretrainSettings`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacr.registry import Registry

OWNED = frozenset(
    {
        *("framework", "framework_options", "objective", "objective_options"),
        *("head", "predictor", "hidden", "dim", "batch_norm", "sync_batch_norm"),
        *("optimizer", "lr", "base_lr", "bias_base_lr", "weight_decay", "views", "weak_views"),
    }
)
"""Settings that a method may set. With another method, the values from a recipe or another run are dropped."""


@dataclass(frozen=True)
class Rates:
    """Settings of an optimiser that a method needs, where its defaults are not right.

    Attributes:
        base_lr: learning rate for 256 images per step.
        bias_base_lr: the same for biases and norms; None: that of other weights.
        weight_decay: None: the optimiser's.
    """

    base_lr: float
    bias_base_lr: float | None = None
    weight_decay: float | None = None


@dataclass(frozen=True)
class Method:
    """A framework with its objective, and the settings that define the method.

    Attributes:
        name: name on the command line.
        summary: one line for listings.
        framework: a name of ``cacr.frameworks.FRAMEWORKS``.
        objective: a name of ``cacr.losses.OBJECTIVES``.
        framework_options: options of the framework that differ from its defaults.
        objective_options: options of the objective that differ from its defaults.
        settings: other settings of :data:`OWNED` that are not ``auto``.
        rates: by the name of the optimiser that they were chosen for. A run with another one has that one's defaults.
        any_framework: whether the name stands for the objective in any framework.
    """

    name: str
    summary: str
    framework: str
    objective: str
    framework_options: Mapping[str, Any] = field(default_factory=dict)
    objective_options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    rates: Mapping[str, Rates] = field(default_factory=dict)
    any_framework: bool = False

    def __post_init__(self) -> None:
        if strange := self.settings.keys() - OWNED:
            raise ValueError(f"a method cannot set {', '.join(sorted(strange))}")
        # listings use the first line of the docstring
        object.__setattr__(self, "__doc__", self.summary)

    def values(self) -> dict[str, Any]:
        """All settings of the method, by name."""
        return {
            "framework": self.framework,
            "objective": self.objective,
            "framework_options": dict(self.framework_options),
            "objective_options": dict(self.objective_options),
            **self.settings,
        }

    def is_meant_by(self, framework: object, objective: object) -> bool:
        """Whether a framework and an objective still match the name."""
        return objective == self.objective and (self.any_framework or framework == self.framework)


METHODS: Registry[Method] = Registry("method")
"""Learning rates that are not those of the optimiser were chosen on CIFAR-10 by ``benchmarks/methods.py``, those of
BYOL and LeJEPA on digits by ``benchmarks/method_rates.py``, those of captions by ``benchmarks/captions.py``."""

DEFAULT = "cacr"


def _add(name: str, summary: str, framework: str, objective: str, **more: Any) -> None:
    METHODS.register(name)(Method(name, summary, framework, objective, **more))


_TWO: dict[str, Any] = {"views": 2}
_SIMCLR: dict[str, Any] = {**_TWO, "head": "simclr", "sync_batch_norm": True}
_MOCO_V2: dict[str, Any] = {**_TWO, "head": "moco_v2"}
_SLOW = {"sgd": Rates(0.12)}
_ONE_WAY: dict[str, Any] = {"symmetric": False, "in_batch": "off"}

_add("cacr", "contrastive attraction and contrastive repulsion", "in_batch", "cacr", any_framework=True)
_add(
    "simclr",
    "find the other view of an image among all images of the batch",
    "in_batch",
    "info_nce",
    objective_options={"temperature": 0.1, "negatives": "all"},
    settings=_SIMCLR,
    rates=_SLOW,
)
_add(
    "simclr_v2",
    "SimCLR with a head of three layers",
    "in_batch",
    "info_nce",
    objective_options={"temperature": 0.1, "negatives": "all"},
    settings={**_SIMCLR, "head": "simclr_v2"},
    rates=_SLOW,
)
_add(
    "moco_v2",
    "momentum keys, with a queue of earlier keys as negatives",
    "queue",
    "info_nce",
    framework_options=_ONE_WAY,
    objective_options={"temperature": 0.2},
    settings=_MOCO_V2,
    rates=_SLOW,
)
_add(
    "moco_v3",
    "predictions compared with the momentum keys of the batch",
    "momentum",
    "info_nce",
    objective_options={"temperature": 0.2, "negatives": "cross"},
    settings={**_TWO, "predictor": "moco_v3"},
    rates=_SLOW,
)
_add(
    "byol",
    "predict the momentum encoder's projection of another view; no negatives",
    "momentum",
    "byol",
    settings={**_TWO, "head": "byol", "predictor": "byol"},
    rates={"sgd": Rates(1.0)},
)
_add(
    "simsiam",
    "predict the projection of another view by the same encoder, without its gradient; no negatives",
    "siamese",
    "simsiam",
    settings={**_TWO, "head": "simsiam", "predictor": "simsiam"},
)
_add(
    "swav",
    "predict the cluster assignment of another view",
    "prototypes",
    "swav",
    # with the published 0.1 short runs shrink to a point: docs/explanation/methods.md
    objective_options={"temperature": 0.3},
    settings={**_TWO, "head": "simclr"},
)
_add(
    "barlow_twins",
    "make the cross-correlation of two views the identity; no negatives",
    "in_batch",
    "barlow_twins",
    settings={
        **_TWO,
        "head": "barlow_twins",
        "sync_batch_norm": True,
        # as published: a sum over wide embeddings has gradients that no rate of SGD fits in all layers
        "optimizer": "lars",
    },
    rates={"lars": Rates(2.0, bias_base_lr=0.048)},
)
_add(
    "vicreg",
    "equal views; dimensions that vary and are not correlated; no negatives (not in the paper)",
    "in_batch",
    "vicreg",
    settings={
        **_TWO,
        "head": "barlow_twins",
        "sync_batch_norm": True,
        "optimizer": "lars",  # as published
    },
    rates={"lars": Rates(0.9)},
)
_add(
    "lejepa",
    "equal views; embeddings kept normally distributed by SIGReg; no negatives (not in the paper)",
    "in_batch",
    "lejepa",
    settings={
        "head": "simclr_v2",
        "sync_batch_norm": True,
        "optimizer": "adamw",
    },
    rates={"adamw": Rates(0.01, weight_decay=0.05)},
)
_add(
    "fnc",
    "SimCLR that attracts likely false negatives",
    "in_batch",
    "info_nce",
    objective_options={
        "temperature": 0.1,
        "negatives": "all",
        "false_negatives": "attract",
        "fnc_top": 10,
        "fnc_threshold": 0.7,
    },
    settings=_SIMCLR,
    rates=_SLOW,
)
_add(
    "ascl",
    "MoCo v2 with soft labels for negatives near the positive, computed from a weak view",
    "queue",
    "ascl",
    framework_options=_ONE_WAY,
    settings={**_MOCO_V2, "weak_views": 1},
    rates=_SLOW,
)
_add(
    "adaclr",
    "SimCLR with nearest neighbours as positives (their number and start approximate the paper's)",
    "in_batch",
    "adaclr",
    settings=_SIMCLR,
    rates=_SLOW,
)
_add(
    "align_uniform",
    "AU-CL: bring views together and spread images uniformly",
    "in_batch",
    "align_uniform",
    settings={**_TWO, "batch_norm": "joint"},
    any_framework=True,
)
_add(
    "hard_negative",
    "HN-CL: InfoNCE with larger weights for hard negatives",
    "in_batch",
    "hard_negative",
    settings=_TWO,
    any_framework=True,
)
_add(
    "cmc",
    "contrastive multiview coding: InfoNCE between each pair of views",
    "in_batch",
    "cmc",
    any_framework=True,
)
_add(
    "triplet",
    "positives closer than negatives by a margin",
    "in_batch",
    "triplet",
    any_framework=True,
)
_TEXT: dict[str, Any] = {
    "head": "linear",
    "dim": 256,
    "optimizer": "adamw",
}
_TEXT_RATES = {"adamw": Rates(6e-4)}
_add(
    "clip",
    "InfoNCE between images and captions, with a learned temperature (data with captions)",
    "image_text",
    "clip",
    settings=_TEXT,
    rates=_TEXT_RATES,
)
_add(
    "cacr_text",
    "CACR between images and captions (data with captions; --views 4: four crops per image)",
    "image_text",
    "cacr",
    objective_options={"t_neg": 2.0},
    settings=_TEXT,
    rates=_TEXT_RATES,
)
