"""What a framework is: it turns the views of a batch into the parts of a loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn

from cacr.encoders import Encoder
from cacr.losses import Objective
from cacr.registry import Registry


class Negatives(NamedTuple):
    """How many negatives a query has, and where they come from."""

    number: int
    origin: str


class Framework(nn.Module, ABC):
    """Base of the frameworks.

    Attributes:
        encoder: images to features; what is kept when the training is over.
        head: features to the embeddings (n, dim) that are compared, and that the diagnostics measure.
        objective: what is minimised.
    """

    encoder: Encoder
    head: nn.Module
    objective: Objective

    @abstractmethod
    def forward(self, views: Sequence[Tensor]) -> dict[str, Tensor]:
        """Named scalars, ``loss`` among them.

        Args:
            views: one normalised tensor (views, images, 3, size, size) for each size of crop; with several
                processes the images of this process, while the loss is that of the global batch.
        """

    @classmethod
    def refusal(cls, objective: Objective) -> str | None:
        """Why the framework cannot train with an objective; None where it can."""
        return None

    @abstractmethod
    def negatives(self, images: int, views: int) -> Negatives:
        """Negatives of one query in a global batch of ``images`` with ``views`` views."""


FRAMEWORKS: Registry[type[Framework]] = Registry("framework")
