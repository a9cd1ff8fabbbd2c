"""The base class of frameworks: a framework turns the views of a batch into the parts of a loss."""

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
    """Number of negatives of a query, and where they come from."""

    number: int
    origin: str


class Facts(NamedTuple):
    """Facts that a framework can use to choose its options.

    Attributes:
        images: number of images in the data set.
        batch_size: images per step, over all processes.
        steps: number of steps of the whole run.
        transformer: whether the encoder has position embeddings.
        captions: largest number of captions of an image; 0 without captions.
        global_views: number of views per image that are not local crops.
        epochs: length of the run in passes over the data.
    """

    images: int
    batch_size: int
    steps: int
    transformer: bool
    captions: int = 0
    global_views: int = 2
    epochs: float = 1.0


class Shared(TypedDict, total=False):
    """The keyword arguments that every framework takes and passes on to :class:`Framework`."""

    batch_norm: str
    exchange: Exchange
    encode_chunk: int | None


class Framework(nn.Module, ABC):
    """Base class of frameworks.

    A framework is created as ``Kind(encoder, head, objective, **shared, **options)``, with a ``predictor`` if
    ``has_predictor``. Its additional keyword arguments, which have defaults, are settings (``--set``).

    Its attributes decide which objectives it can train (:meth:`refusal`).

    Args:
        encoder: images (n, 3, s, s) -> features; it is saved after the training.
        head: features -> embeddings (n, dim), which are compared, and which the diagnostics measure.
        objective: input of kind ``gives`` -> named parts of the loss.
        batch_norm: statistics ``per_view``, as if each view had its own forward pass, or ``joint``.
        exchange: how processes share embeddings for the loss, see :func:`cacr.frameworks.gather.exchanged`.
        encode_chunk: images per forward pass, see :mod:`cacr.frameworks.chunks`; None: all images of the process.

    Attributes:
        gives: the kind of input of the objective.
        has_predictor: whether it takes ``predictor``, embeddings -> predictions.
        reads_captions: whether it takes ``text_head``, and captions as the last of the ``views`` (see
            :meth:`read_captions`).
        holds_targets: whether the targets of the queries receive no gradient.
        fewest_views: smallest number of views per image for training.
        default_views: default number of views; None: that of the preset.
        default_preset: default view preset; None: that of the data.
        default_optimizer: default optimiser; None: that of the encoder.
        rows_per_view: number of rows that :meth:`embed` returns per view.
        default_predictor: name of the default predictor.
        sync_batch_norm: whether batch statistics are shared between processes by default.
        objective_defaults: options of the objective with another default in this framework.
        meaningless_options: options of the objective without effect in this framework; includes ``negatives`` if the
            framework has its own negatives.
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
    meaningless_options: ClassVar[frozenset[str]] = frozenset({"queue_grad"})

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
        """The queries (views, images, dim) of this process's images, through which gradients flow.

        By default: the embeddings of all views.

        Args:
            views: normalised tensors (views, images, 3, size, size); the first one has the global crops, the others
                local ones, even if all have the same size.
        """
        return encode_views(views, self.encoder, self.head, batch_norm=self.batch_norm)

    def targets(self, views: Sequence[Tensor]) -> Tensor | None:
        """The keys (views, images, dim) of this process, which receive no gradient; None if there are none."""
        return None

    @abstractmethod
    def loss(
        self, queries: Tensor, targets: Tensor | None, global_views: int | None = None
    ) -> dict[str, Tensor]:
        """Named scalars of the global batch, including ``loss``.

        Args:
            queries: (views, images, dim) of this process's images (see :meth:`embed`).
            targets: see :meth:`targets`.
            global_views: number of views that are global crops (the first ones); None: all.
        """

    def forward(self, views: Sequence[Tensor]) -> dict[str, Tensor]:
        """Named scalars, including ``loss``; with several processes, those of the global batch."""
        parts = in_chunks(views, self.encode_chunk)
        queries = encode_twice(self.embed, parts, self)
        held = [keys for part in parts if (keys := self.targets(part)) is not None]
        global_views = len(views[0]) if len(views) > 1 else None
        return self.loss(queries, torch.cat(held, dim=1) if held else None, global_views)

    def before_step(self, step: int, total: int, epoch: int) -> None:
        """Called before optimiser step ``step`` of ``total``, both from 0."""
        self.objective.begin_step(step, total)

    def hold_gradients(self) -> None:
        """Set gradients to zero that must not change weights in this step; called after gradients are averaged."""
        return None

    def constant_rate(self) -> list[nn.Module]:
        """Modules that keep the peak learning rate while the schedule lowers that of others."""
        return []

    def blank_captions(self, images: int) -> list[Tensor]:
        """Empty captions for a step that is only estimated or timed; none by default."""
        return []

    def after_step(self, step: int, total: int) -> None:
        """Update state without gradients, after ``step`` of ``total`` optimiser steps."""
        return None

    def negatives(self, images: int, views: int) -> NegativeCount:
        """Negatives of one query in a global batch of ``images`` with ``views`` views; by default those of the batch.

        Called only if the objective has negatives.
        """
        return batch_negatives(self.objective.negatives, images, views)

    def negatives_text(self, images: int, views: int, *, accumulate: int = 1) -> str:
        """Describe the negatives of a query.

        Args:
            images: number of images of a global batch.
            views: number of views with keys.
            accumulate: number of batches per step.
        """
        if not self.objective.has_negatives:
            return "none: no image is compared with another"
        number, origin = self.negatives(images, views)
        return f"{number:,} per query: {origin}"

    @classmethod
    def refusal(cls, objective: Objective, *, local: bool = False) -> str | None:
        """Why the framework cannot train with an objective, with or without local crops; None if it can."""
        if why := objective.refusal(cls.gives):
            return why
        if objective.needs_captions and not cls.reads_captions:
            fitting = " or ".join(name for name in FRAMEWORKS if FRAMEWORKS[name].reads_captions)
            return f"it compares images with captions: use framework {fitting}"
        if objective.needs_predictor and not cls.has_predictor:
            return cls._without_predictor()
        if local and not objective.local_crops:
            return f"{type(objective).__name__} does not support local crops: use another --preset"
        if not objective.has_negatives:
            return None
        if "negatives" in cls.meaningless_options:
            return objective.fixed_negatives or None
        return NO_LOCAL_KEYS if local and not objective.local_keys and objective.negatives == "same" else None

    @classmethod
    def unused_crops(cls, objective: Objective, options: Mapping[str, Any]) -> str | None:
        """Why local crops would be made and not used with these options; None, as in most frameworks, if they are."""
        return None

    @classmethod
    def _without_predictor(cls) -> str:
        """Say what an objective without a predictor lacks, and which frameworks have one."""
        name = next((name for name in FRAMEWORKS if FRAMEWORKS[name] is cls), cls.__name__)
        missing = (
            "no predictor: without it"
            if cls.holds_targets
            else "no predictor and no target without gradient: without them"
        )
        fitting = " or ".join(name for name in FRAMEWORKS if FRAMEWORKS[name].has_predictor)
        return f"{name} has {missing} this objective collapses; use framework {fitting}"

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
        """Problems with options that do not depend on the data; none in most frameworks."""
        return []

    @classmethod
    def problems(cls, options: Mapping[str, Any], facts: Facts) -> list[str]:
        """Problems with options, given the data and the batch; none in most frameworks."""
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
        """The options of an objective with the defaults of this framework, if the objective accepts them.

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
        except ValueError:  # a given option forbids a default, such as negatives with false_negatives
            return dict(given)
        return options


FRAMEWORKS: Registry[type[Framework]] = Registry("framework")


def encode_views(views: Sequence[Tensor], *modules: nn.Module, batch_norm: str) -> Tensor:
    """Views of several sizes through modules in sequence: (views, images, dim), in the order of the views.

    All views of one size take one forward pass; with batch norm ``per_view``, statistics are those of each view.
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
    """Pairs of queries (views, images, dim) and keys (key views, images, dim), with the negatives of an objective."""
    if not objective.has_negatives:
        return positives_only(queries, keys, ring=ring)
    return momentum(queries, keys, objective.negatives, ring=ring)
