"""Small frameworks for tests: an encoder without batch statistics, on images of a few pixels."""

from typing import Any

import torch
from torch import Tensor, nn

from cacr.encoders import Encoder, EncoderInfo
from cacr.frameworks import FRAMEWORKS, Framework, Shared
from cacr.losses import OBJECTIVES
from tests.losses.making import make_objective

SIZE, LOCAL, FEATURES, DIM = 4, 2, 6, 5
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
    name: str, objective: str = "cacr", *, norm: bool = False, seed: int = 0, **options: Any
) -> Framework:
    """A framework in float64; ``norm`` gives its head batch norm. Options not of the objective are its own."""
    torch.manual_seed(seed)
    kind, loss = FRAMEWORKS[name], OBJECTIVES[objective]
    own = {n: options.pop(n) for n in list(options) if n in {*kind.option_names(), *Shared.__annotations__}}
    if name in ("queue", "prototypes"):
        own.setdefault("queue_size", 16)
    if name == "prototypes":
        own = {"prototypes": 6, "frozen_steps": 0, "queue_from_epoch": 0, **own}
    if kind.has_predictor:
        own["predictor"] = nn.Linear(DIM, DIM)
    if kind.reads_captions:
        own = {"text_width": 8, "text_layers": 1, "text_context": TOKENS, **own}
        own["text_head"] = lambda dim: nn.Linear(dim, DIM)
    head = nn.Sequential(nn.Linear(FEATURES, DIM), nn.BatchNorm1d(DIM)) if norm else nn.Linear(FEATURES, DIM)
    encoder = Encoder(Pooled(), EncoderInfo("pooled", SIZE, FEATURES))
    made = kind(encoder, head, make_objective(objective, DIM, **kind.objective_options(loss, options)), **own)
    return made.double()


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
