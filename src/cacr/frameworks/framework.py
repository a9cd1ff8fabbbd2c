"""What a framework is: it turns the views of a batch into the parts of a loss."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from cacr.encoders import Encoder, normalise_per_view
from cacr.frameworks.chunks import encode_twice, in_chunks
from cacr.frameworks.gather import Exchange
from cacr.losses import Input, Objective, Pairs, Ring, momentum, positives_only
from cacr.losses.engine.pairs import NO_LOCAL_KEYS
from cacr.registry import Registry


class NegativeCount(NamedTuple):
    """How many negatives a query has, and where they come from."""

    number: int
    origin: str


class Facts(NamedTuple):
    """What a framework may look at to choose its options.

    Attributes:
        images: in the data set.
        batch_size: images in a step, over all processes.
        steps: of the whole run.
        transformer: whether the encoder has position embeddings.
        captions: the most that an image has; 0 where there are none.
        global_views: views of an image that are no local crops.
    """

    images: int
    batch_size: int
    steps: int
    transformer: bool
    captions: int = 0
    global_views: int = 2


class Shared(TypedDict, total=False):
    """The keywords that every framework takes and hands on to :class:`Framework`."""

    batch_norm: str
    exchange: Exchange
    encode_chunk: int | None


class Framework(nn.Module, ABC):
    """Base of the frameworks.

    A framework is made as ``Kind(encoder, head, objective, **shared, **options)``, with a ``predictor`` too where
    ``has_predictor`` says so. The keyword arguments that it adds to these, with defaults, are settings (``--set``).

    What it declares is all that decides which objectives it can train (:meth:`refusal`).

    Args:
        encoder: images (n, 3, s, s) -> features; what is kept when the training is over.
        head: features -> the embeddings (n, dim) that are compared, and that the diagnostics measure.
        objective: what ``gives`` says -> named parts of the loss.
        batch_norm: statistics ``per_view``, as if each view had its own forward, or ``joint``.
        exchange: how processes share embeddings for the loss, see :func:`cacr.frameworks.gather.exchanged`.
        encode_chunk: images encoded at a time, see :mod:`cacr.frameworks.chunks`; None: all of a process's.

    Attributes:
        gives: what the objective is computed from.
        has_predictor: whether it takes ``predictor``, embeddings -> predictions.
        reads_captions: whether it takes ``text_head``, and captions as the last of the ``views`` (see
            :meth:`read_captions`).
        holds_targets: whether what the queries are compared with receives no gradient.
        fewest_views: of an image, with which it can train.
        default_views: default number of views; None: that of the preset.
        default_preset: default view preset; None: that of the data.
        default_optimizer: default optimiser; None: that of the encoder.
        rows_per_view: rows that :meth:`embed` returns for each view.
        default_predictor: name of the default predictor.
        sync_batch_norm: whether batch statistics are those of all processes, where nothing else is asked for.
        objective_defaults: options of the objective whose default is another one in this framework.
        meaningless_options: options of the objective that mean nothing in this framework; ``negatives`` is among
            them where the framework has negatives of its own.
    """

    gives: ClassVar[Input] = "pairs"
    has_predictor: ClassVar[bool] = False
    reads_captions: ClassVar[bool] = False
    holds_targets: ClassVar[bool] = False
    fewest_views: ClassVar[int] = 2
    default_views: ClassVar[int | None] = None
    default_preset: ClassVar[str | None] = None
    default_optimizer: ClassVar[str | None] = None
    rows_per_view: ClassVar[int] = 1
    default_predictor: ClassVar[str] = "moco_v3"
    sync_batch_norm: ClassVar[bool] = False
    objective_defaults: ClassVar[Mapping[str, Any]] = {}
    meaningless_options: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        objective: Objective,
        *,
        batch_norm: str = "per_view",
        exchange: Exchange = "gather",
        encode_chunk: int | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.objective = objective
        self.batch_norm = batch_norm
        self.exchange: Exchange = exchange
        self.encode_chunk = encode_chunk

    def embed(self, views: Sequence[Tensor]) -> Tensor:
        """What gradients flow through: the queries (views, images, dim) of this process's images.

        Here: the embeddings of all views.

        Args:
            views: one normalised tensor (views, images, 3, size, size) for each size of crop; the first one
                holds the global crops, the others local ones.
        """
        return encode_views(views, self.encoder, self.head, batch_norm=self.batch_norm)

    def targets(self, views: Sequence[Tensor]) -> Tensor | None:
        """What the queries are compared with and what is held: keys (views, images, dim) of this process, if any."""
        return None

    @abstractmethod
    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Named scalars, ``loss`` among them, of the global batch.

        Args:
            queries: (views, images, dim), of this process's images (see :meth:`embed`).
            targets: see :meth:`targets`.
            global_views: views that are global crops, from the first; None: all.
        """

    def forward(self, views: Sequence[Tensor]) -> dict[str, Tensor]:
        """Named scalars, ``loss`` among them; with several processes they are those of the global batch."""
        parts = in_chunks(views, self.encode_chunk)
        queries = encode_twice(self.embed, parts, self)
        held = [keys for part in parts if (keys := self.targets(part)) is not None]
        global_views = len(views[0]) if len(views) > 1 else None
        return self.loss(queries, torch.cat(held, dim=1) if held else None, global_views)

    def before_step(self, step: int, total: int, epoch: int) -> None:
        """Told before optimiser step ``step`` of ``total``, both from 0, where the run is."""
        self.objective.begin_step(step, total)

    def hold_gradients(self) -> None:
        """Drop the gradients of what this step shall not move, when those of all processes are there."""
        return None

    def constant_rate(self) -> list[nn.Module]:
        """Modules that keep the peak learning rate while the schedule lowers that of the others."""
        return []

    def blank_captions(self, images: int) -> list[Tensor]:
        """What stands for the captions of so many images where a step is only counted or timed; here: nothing."""
        return []

    def after_step(self, step: int, total: int) -> None:
        """Move what follows the weights without gradients, after ``step`` of ``total`` optimiser steps."""
        return None

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query in a global batch of ``images`` with ``views`` views; here: of the batch itself.

        Asked only where the objective has negatives.
        """
        return batch_negatives(self.objective.negatives, images, views)

    def negatives_text(self, images: int, views: int) -> str:
        """The negatives of a query in words; ``views`` are those that have keys."""
        if not self.objective.has_negatives:
            return "none: no image is compared with another"
        number, origin = self.negatives(images, views)
        return f"{number:,} for each query: {origin}"

    @classmethod
    def refusal(cls, objective: Objective, *, local: bool = False) -> str | None:
        """Why the framework cannot train with an objective, with local crops or without; None where it can."""
        if why := objective.refusal(cls.gives):
            return why
        if objective.needs_captions and not cls.reads_captions:
            fitting = " or ".join(name for name in FRAMEWORKS if FRAMEWORKS[name].reads_captions)
            return f"it compares images with their captions; take framework {fitting}"
        if objective.needs_predictor and not cls.has_predictor:
            return cls._without_predictor()
        if local and not objective.local_crops:
            return f"{type(objective).__name__} compares whole views and has no use for local crops: another --preset"
        if not objective.has_negatives:
            return None
        if "negatives" in cls.meaningless_options:
            return objective.fixed_negatives or None
        return NO_LOCAL_KEYS if local and not objective.local_keys and objective.negatives == "same" else None

    @classmethod
    def _without_predictor(cls) -> str:
        """What an objective misses that needs a predictor, and which frameworks have one."""
        name = next((name for name in FRAMEWORKS if FRAMEWORKS[name] is cls), cls.__name__)
        missing = (
            "no predictor: without it"
            if cls.holds_targets
            else "no predictor and no held target: without them"
        )
        fitting = " or ".join(name for name in FRAMEWORKS if FRAMEWORKS[name].has_predictor)
        return f"{name} has {missing} this objective collapses; take framework {fitting}"

    @classmethod
    def default_head(cls, transformer: bool) -> str:
        """The name of the default head: one whose embeddings cannot shrink to a point."""
        return "normed"

    @classmethod
    def default_options(cls, facts: Facts) -> dict[str, Any]:
        """Default options that depend on the data and the length of the run."""
        return {}

    @classmethod
    def complete_options(cls, given: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
        """The options of a run: those that were given, and the defaults of the others."""
        return cls.default_options(facts) | dict(given)

    @classmethod
    def option_problems(cls, given: Mapping[str, Any]) -> list[str]:
        """What is wrong with options whatever the data, before any of it is looked at; nothing in most frameworks."""
        return []

    @classmethod
    def problems(cls, options: Mapping[str, Any], facts: Facts) -> list[str]:
        """What is wrong with options, given the data and the batch; nothing in most frameworks."""
        return []

    @classmethod
    def option_names(cls) -> list[str]:
        """The keyword arguments that are settings: those that a framework adds to the shared ones."""
        parameters = signature(cls.__init__).parameters.values()
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty]
        return [p.name for p in keywords if p.name not in Shared.__annotations__]

    @classmethod
    def objective_options(
        cls, kind: type[Objective], given: Mapping[str, Any], *, local: bool = False
    ) -> dict[str, Any]:
        """The options of an objective with this framework's defaults, where the objective can take them.

        With local crops, which have no keys, the default negatives are those of another view.
        """
        known = signature(kind).parameters
        own = {name: value for name, value in cls.objective_defaults.items() if name in known}
        without = local and not given.get("local_keys") and "negatives" not in cls.meaningless_options
        if without and "negatives" in known and known["negatives"].default == "same":
            own["negatives"] = "cross"
        options = own | dict(given)
        try:
            kind(**options)
        except ValueError:  # what was given forbids a default, such as negatives with false_negatives
            return dict(given)
        return options


FRAMEWORKS: Registry[type[Framework]] = Registry("framework")


def encode_views(views: Sequence[Tensor], *modules: nn.Module, batch_norm: str) -> Tensor:
    """Views of several sizes through modules one after the other: (views, images, dim), in the views' order.

    All views of one size take one forward; with batch norm ``per_view`` as if each had its own.
    """
    parts = []
    for x in views:
        count, images = x.shape[:2]
        flat = x.flatten(0, 1)
        for module in modules:
            normalise_per_view(module, count if batch_norm == "per_view" else 1)
            flat = module(flat)
        parts.append(flat.reshape(count, images, -1))
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def batch_negatives(kind: str, images: int, views: int) -> NegativeCount:
    """Negatives from a batch of ``images``: those that ``cacr.losses.engine.pairs`` calls ``kind``."""
    others = images - 1
    match kind:
        case "all":
            return NegativeCount(views * others, "all views of the other images in the batch")
        case "cross" | "cross_upper":
            return NegativeCount(
                others, "another view of the other images in the batch, for each pair of views"
            )
        case _:
            return NegativeCount(others, "the other images in the batch, same view")


def pairs_with_keys(objective: Objective, queries: Tensor, keys: Tensor, ring: Ring | None) -> Pairs:
    """Queries (views, images, dim) against keys (key views, images, dim), with the negatives of an objective."""
    if not objective.has_negatives:
        return positives_only(queries, keys, ring=ring)
    return momentum(queries, keys, objective.negatives, ring=ring)
