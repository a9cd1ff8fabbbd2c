"""MNIST and Fashion-MNIST."""

from typing import Any

import torch

from cacr.data.download import not_found
from cacr.data.registry import SOURCES, Request
from cacr.data.source import ArraySource
from cacr.errors import UserError
from cacr.reading.foreign import reason


@SOURCES.register("mnist")
def open_mnist(request: Request) -> ArraySource:
    """MNIST: 60,000 + 10,000 handwritten digits, 28 x 28."""
    from torchvision.datasets import MNIST

    return _open("mnist", MNIST, request)


@SOURCES.register("fashion_mnist")
def open_fashion_mnist(request: Request) -> ArraySource:
    """Fashion-MNIST: 60,000 + 10,000 pieces of clothing of 10 classes, 28 x 28."""
    from torchvision.datasets import FashionMNIST

    return _open("fashion_mnist", FashionMNIST, request)


def _open(name: str, dataset: Any, request: Request) -> ArraySource:
    root = request.set_folder()
    try:
        stored = dataset(root, train=request.part != "test", download=request.download)
    except RuntimeError as error:
        if request.download:
            raise UserError(f"{name} could not be downloaded to {root}: {error}") from error
        raise not_found(name, [root / dataset.__name__ / "raw"]) from None
    except Exception as error:  # torchvision's reader does not check the files
        raise UserError(
            f"the files of {name} under {root} are damaged: {reason(error)}; download them again"
        ) from error
    images: torch.Tensor = stored.data.unsqueeze(1).expand(-1, 3, -1, -1)
    return ArraySource(name, images, labels=stored.targets.numpy(), class_names=stored.classes)
