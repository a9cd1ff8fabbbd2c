"""Small frameworks for tests: an encoder without batch statistics, on images of a few pixels."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from cacr.encoders import Encoder, EncoderInfo, build_head, build_predictor
from cacr.frameworks import FRAMEWORKS, Framework, Shared
from cacr.losses import OBJECTIVES
from cacr.methods import METHODS
from tests.losses.making import make_objective

SIZE, LOCAL, FEATURES, HIDDEN, DIM = 4, 2, 6, 10, 8
TOKENS = 4
"""Of a caption."""


class Pooled(nn.Module):
    """Images of any size to features, each image on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 4, FEATURES)

    def forward(self, images: Tensor) -> Tensor:
        return torch.tanh(self.layer(nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)))


def make_framework(
    name: str,
    objective: str = "cacr",
    *,
    norm: bool = False,
    head: str | None = None,
    predictor: str | None = None,
    seed: int = 0,
    **options: Any,
) -> Framework:
    """A framework in float64. Options not of the objective are its own.

    Its head and predictor are linear layers, or those of the given names; ``norm`` gives a linear head batch norm.
    """
    torch.manual_seed(seed)
    kind, loss = FRAMEWORKS[name], OBJECTIVES[objective]
    own = {n: options.pop(n) for n in list(options) if n in {*kind.option_names(), *Shared.__annotations__}}
    if name in ("queue", "prototypes"):
        own.setdefault("queue_size", 16)
    if name == "prototypes":
        own = {"prototypes": 6, "frozen_steps": 0, "queue_from_epoch": 0, **own}
    made_head: Callable[[int], nn.Module] = (
        partial(_linear, norm=norm) if head is None else partial(build_head, head, dim=DIM, hidden=HIDDEN)
    )
    if kind.has_predictor:
        own["predictor"] = (
            _linear(DIM) if predictor is None else build_predictor(predictor, DIM, HIDDEN, transformer=False)
        )
    if kind.reads_captions:
        own = {"text_width": 8, "text_layers": 1, "text_context": TOKENS, **own}
        own["text_head"] = _linear if head is None else made_head
    encoder = Encoder(Pooled(), EncoderInfo("pooled", SIZE, FEATURES))
    objective_options = kind.objective_options(loss, options)
    made = kind(encoder, made_head(FEATURES), make_objective(objective, DIM, **objective_options), **own)
    return made.double()


def _linear(dim: int, *, norm: bool = False) -> nn.Module:
    return nn.Sequential(nn.Linear(dim, DIM), nn.BatchNorm1d(DIM)) if norm else nn.Linear(dim, DIM)


def make_method(name: str) -> Framework:
    """A method with its own head, predictor and kind of batch norm, as a run has them but for the widths."""
    method = METHODS[name]
    kind, settings = FRAMEWORKS[method.framework], method.settings
    return make_framework(
        method.framework,
        method.objective,
        head=settings.get("head", kind.default_head(transformer=False)),
        predictor=settings.get("predictor", kind.default_predictor),
        batch_norm=settings.get("batch_norm", "per_view"),
        **method.framework_options,
        **method.objective_options,
    )


def make_views(
    views: int, images: int, *, local: int = 0, seed: int = 0, framework: str = "in_batch", captions: int = 1
) -> list[Tensor]:
    """Views as a framework takes them: (views, images, 3, 4, 4), and local ones of 2 pixels where asked for.

    A framework that reads captions gets tokens of as many as are asked for.
    """
    draw = torch.Generator().manual_seed(seed)
    made = [torch.randn(views, images, 3, SIZE, SIZE, dtype=torch.float64, generator=draw)]
    if local:
        made.append(torch.randn(local, images, 3, LOCAL, LOCAL, dtype=torch.float64, generator=draw))
    if FRAMEWORKS[framework].reads_captions:
        made.append(torch.randint(1, 1000, (captions, images, TOKENS), generator=draw))
    return made
