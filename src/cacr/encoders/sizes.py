"""Which sizes of images a network takes, once it is built for one."""

from cacr.encoders.build import is_transformer
from cacr.encoders.resnet import LARGEST_SMALL, RESNETS


def has_one_size(encoder: str) -> bool:
    """Whether a network only takes images of the size that it is built for."""
    return encoder == "small_alexnet" or is_transformer(encoder)


def takes(encoder: str, size: int, other: int) -> bool:
    """Whether a network that is built for one size of images also takes another size."""
    if encoder in RESNETS:
        return (size <= LARGEST_SMALL) == (other <= LARGEST_SMALL)
    return size == other or not has_one_size(encoder)
