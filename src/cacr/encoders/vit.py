"""MoCo v3's changes to vision transformers: fixed positions, and patches that are not trained."""

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from cacr.encoders.timm_models import create, has_positions
from cacr.errors import UserError

T = TypeVar("T")


def patch_problem(name: str, size: int) -> str | None:
    """The problem of images of ``size`` pixels for an encoder with patches; None if there is none."""
    if not has_positions(name):
        return None
    with torch.device("meta"):
        patches = getattr(create(name), "patch_embed", None)
    patch = getattr(patches, "patch_size", None)
    if not isinstance(patch, tuple) or all(size % side == 0 for side in patch):
        return None
    side = patch[0]
    nearest = max(side, round(size / side) * side)
    return (
        f"{name} divides images into patches of {side} pixels, which do not divide {size}: use a multiple, such as "
        f"{nearest}"
    )


def sincos_positions(side: int, dim: int) -> Tensor:
    """Embeddings (side * side, dim) of the positions on a grid, row by row.

    With f_n = 10000^(-n / q), n = 0 .. q-1, q = dim / 4, and a position in row y and column x:

        (sin f x, cos f x, sin f y, cos f y)
    """
    if dim % 4:
        raise UserError(
            f"fixed positions need a dimension divisible by 4, not {dim}: use --set positions=learned"
        )
    frequency = 10_000 ** (-torch.arange(dim // 4, dtype=torch.float64) / (dim // 4))
    place = torch.arange(side, dtype=torch.float64)
    y, x = (axis.flatten()[:, None] * frequency for axis in torch.meshgrid(place, place, indexing="ij"))
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], dim=1).float()


@torch.no_grad()
def fix_positions(backbone: nn.Module) -> None:
    """Replace a transformer's learned position embeddings by fixed sines and cosines."""
    table = _part(backbone, "pos_embed", nn.Parameter)
    rows, columns = _part(_part(backbone, "patch_embed", nn.Module), "grid_size", tuple)
    before = table.shape[1] - rows * columns  # the class token, which has no position
    if rows != columns or before < 0:
        raise UserError("fixed positions need a square grid of patches: use --set positions=learned")
    table[:, :before] = 0
    table[:, before:] = sincos_positions(rows, table.shape[2]).to(table)
    table.requires_grad_(False)


@torch.no_grad()
def freeze_patches(backbone: nn.Module) -> None:
    """Draw the patch projection uniformly, by the number of its inputs and outputs, and do not train it."""
    projection = _part(_part(backbone, "patch_embed", nn.Module), "proj", nn.Conv2d)
    bound = math.sqrt(6 / (projection.weight[0].numel() + projection.out_channels))
    nn.init.uniform_(projection.weight, -bound, bound)
    if projection.bias is not None:
        nn.init.zeros_(projection.bias)
    projection.requires_grad_(False)


def _part(module: nn.Module, name: str, kind: type[T]) -> T:
    found = getattr(module, name, None)
    if not isinstance(found, kind):
        raise UserError(
            f"this encoder has no {name}, as vision transformers have: "
            "use --set positions=learned --set patches=trained"
        )
    return found
