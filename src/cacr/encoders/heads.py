"""Projection heads: from an encoder's features to the embeddings that an objective compares."""

from collections.abc import Callable
from itertools import pairwise

from torch import nn

from cacr.registry import Registry

HEADS: Registry[Callable[[int, int, int], nn.Module]] = Registry("head")
"""Name -> function of feature_dim, hidden and dim: a module (n, feature_dim) -> (n, dim)."""


@HEADS.register("linear")
def linear_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """One linear layer with a bias: fc8, the last layer of small_alexnet."""
    head = nn.Linear(feature_dim, dim)
    nn.init.normal_(head.weight, std=0.02)
    nn.init.zeros_(head.bias)
    return head


@HEADS.register("mlp")
def mlp_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Linear - batch norm - ReLU - linear: the head of the ResNet-50 experiments on small images."""
    return nn.Sequential(
        nn.Linear(feature_dim, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, dim),
    )


@HEADS.register("normed")
def normed_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Linear - batch norm - ReLU - linear - batch norm without weights: embeddings that cannot shrink to a point."""
    return _normalised_layers(feature_dim, hidden, dim, last_norm=True)


@HEADS.register("moco_v2")
def moco_v2_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Linear - ReLU - linear, with biases and without batch norm: MoCo v2."""
    return nn.Sequential(nn.Linear(feature_dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim))


@HEADS.register("moco_v3")
def moco_v3_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Two linear layers, each with batch norm, ReLU between: MoCo v3's projector for ResNets."""
    return _normalised_layers(feature_dim, hidden, dim, last_norm=True)


@HEADS.register("moco_v3_vit")
def moco_v3_vit_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Three linear layers, each with batch norm, ReLU between: MoCo v3's projector for transformers."""
    return _normalised_layers(feature_dim, hidden, hidden, dim, last_norm=True)


@HEADS.register("simclr")
def simclr_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Linear - batch norm - ReLU - linear, with the width of the features: SimCLR and SwAV."""
    return _plain_layers(feature_dim, hidden, dim)


@HEADS.register("simclr_v2")
def simclr_v2_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Three linear layers with the width of the features, batch norm and ReLU between: SimCLR v2, and LeJEPA."""
    return _plain_layers(feature_dim, hidden, hidden, dim)


@HEADS.register("byol")
def byol_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Linear - batch norm - ReLU - linear, wide: BYOL's projector."""
    return _plain_layers(feature_dim, hidden, dim)


@HEADS.register("simsiam")
def simsiam_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Three linear layers, each with batch norm, ReLU between: SimSiam's projector."""
    return _normalised_layers(feature_dim, hidden, hidden, dim, last_norm=True)


@HEADS.register("barlow_twins")
def barlow_twins_head(feature_dim: int, hidden: int, dim: int) -> nn.Module:
    """Three wide linear layers, batch norm and ReLU between: Barlow Twins and VICReg."""
    return _plain_layers(feature_dim, hidden, hidden, dim)


PREDICTORS: Registry[Callable[[int, int, bool], nn.Module]] = Registry("predictor")
"""Name -> function of dim, hidden and whether the encoder is a transformer: a module (n, dim) -> (n, dim)."""


@PREDICTORS.register("moco_v3")
def moco_v3_predictor(dim: int, hidden: int, transformer: bool) -> nn.Module:
    """Linear - batch norm - ReLU - linear, and batch norm at the end for transformers: MoCo v3."""
    return _normalised_layers(dim, hidden, dim, last_norm=transformer)


@PREDICTORS.register("byol")
def byol_predictor(dim: int, hidden: int, transformer: bool) -> nn.Module:
    """Linear - batch norm - ReLU - linear, with the width of the projector: BYOL."""
    return _plain_layers(dim, hidden, dim)


@PREDICTORS.register("simsiam")
def simsiam_predictor(dim: int, hidden: int, transformer: bool) -> nn.Module:
    """Linear - batch norm - ReLU - linear, with a quarter of the embeddings' dimension inside: SimSiam."""
    return _plain_layers(dim, max(1, dim // 4), dim)


_WIDE = {"moco_v3": 4096, "moco_v3_vit": 4096, "byol": 4096, "simsiam": 2048, "barlow_twins": 8192}
"""Hidden widths that were published for ResNet-50, whose features have 2,048 dimensions."""

KEPT_FIRST_LAYERS = ("simclr_v2",)
"""Heads whose first layer is stored with the encoder, for fine-tuning."""

_DIMS = {"moco_v3": 256, "moco_v3_vit": 256, "byol": 256}
"""Published dimensions of embeddings; 128 for others, and the width of the hidden layers in `_SQUARE`."""

_SQUARE = ("simsiam", "barlow_twins")


def default_hidden(head: str, feature_dim: int, width: float = 1.0) -> int:
    """Default width of a head's hidden layers, as in its paper, for an encoder of a given width.

    Heads that are wider than ResNet-50's features are scaled down for a narrower encoder.
    """
    if head in _WIDE:
        return max(8, round(_WIDE[head] * min(1.0, width, feature_dim / 2048)))
    return 512 if head in ("linear", "mlp", "normed") else feature_dim


def default_dim(head: str, feature_dim: Callable[[], int], width: float = 1.0) -> int:
    """Default dimension of the embeddings, as in the paper of a head, for an encoder of a given width.

    Args:
        head: A name of :data:`HEADS`.
        feature_dim: Returns the dimension of the encoder's features; called only for heads that depend on it.
        width: Width of the encoder.
    """
    return default_hidden(head, feature_dim(), width) if head in _SQUARE else _DIMS.get(head, 128)


def build_head(head: str, feature_dim: int, dim: int = 128, hidden: int | None = None) -> nn.Module:
    """A head by its name.

    Args:
        head: A name of :data:`HEADS`.
        feature_dim: Dimension of the encoder's features.
        dim: Dimension of the embeddings.
        hidden: Width of the hidden layers; None for that of :func:`default_hidden`.

    Returns:
        A module (n, feature_dim) -> (n, dim); its output is not normalised.
    """
    return HEADS[head](feature_dim, hidden or default_hidden(head, feature_dim), dim)


def build_predictor(predictor: str, dim: int, hidden: int, *, transformer: bool) -> nn.Module:
    """A predictor by its name.

    Args:
        predictor: A name of :data:`PREDICTORS`.
        dim: Dimension of the embeddings.
        hidden: Width of the head's hidden layers.
        transformer: Whether the encoder is a transformer.
    """
    return PREDICTORS[predictor](dim, hidden, transformer)


def first_layers(head: nn.Module) -> nn.Sequential:
    """The first linear layer of a head, with batch norm and ReLU after it: (n, feature_dim) -> (n, hidden).

    Args:
        head: Made by one of :data:`KEPT_FIRST_LAYERS`.
    """
    assert isinstance(head, nn.Sequential)
    end = next(number for number, layer in enumerate(head) if isinstance(layer, nn.ReLU))
    return head[: end + 1]


def keeps_apart(head: nn.Module) -> bool:
    """Whether a head ends in a batch norm without weights, after which embeddings cannot shrink to a point."""
    last = list(head.modules())[-1]
    return isinstance(last, nn.modules.batchnorm._BatchNorm) and not last.affine


def _plain_layers(*widths: int) -> nn.Module:
    """Linear layers with batch norm and ReLU between them; only the last layer has a bias."""
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths[:-1]):
        layers += [nn.Linear(wide, narrow, bias=False), nn.BatchNorm1d(narrow), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


def _normalised_layers(*widths: int, last_norm: bool) -> nn.Module:
    """Linear layers without bias; batch norm and ReLU between them, and batch norm without weights at the end."""
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths[:-1]):
        layers += [nn.Linear(wide, narrow, bias=False), nn.BatchNorm1d(narrow), nn.ReLU(inplace=True)]
    layers.append(nn.Linear(widths[-2], widths[-1], bias=False))
    if last_norm:
        layers.append(nn.BatchNorm1d(widths[-1], affine=False))
    return nn.Sequential(*layers)
