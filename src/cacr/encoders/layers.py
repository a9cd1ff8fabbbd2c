"""The layers of a backbone, from the image to the features: which of them learn, and how fast."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from cacr.encoders.batch_norm import fix_statistics
from cacr.errors import UserError


def layers_of(backbone: nn.Module, *, stages: bool = False) -> dict[str, int]:
    """The number of the layer that each weight belongs to, from 0 at the image, by the weight's name.

    Args:
        backbone: Of timm, which says what its layers are; of others each child is one, and what has none the first.
        stages: Whole stages, such as ``layer1`` of a ResNet, in place of single blocks; the stem is the first.
    """
    names = [name for name, _ in backbone.named_parameters()]
    if not hasattr(backbone, "group_matcher"):
        number = {name: place for place, (name, _) in enumerate(backbone.named_children())}
        return {name: number.get(name.partition(".")[0], 0) for name in names}
    from timm.models import group_parameters

    found: dict[str, int] = group_parameters(backbone, backbone.group_matcher(coarse=stages), reverse=True)  # type: ignore[operator]
    return {name: found[name] for name in names}


def rates_of(backbone: nn.Module, decay: float) -> dict[str, float]:
    """The share of the learning rate that each weight has: 1 in the last layer, ``decay`` in the one before, and so on.

    decay^(L - l) in layer l of 0 ... L.
    """
    layers = layers_of(backbone)
    last = max(layers.values())
    return {name: decay ** (last - number) for name, number in layers.items()}


def freeze_stages(backbone: nn.Module, count: int, encoder: str) -> None:
    """Keep the weights and batch-norm statistics of the first ``count`` stages as they are.

    Raises:
        UserError: the encoder has not so many, or no other.
    """
    stages = layers_of(backbone, stages=True)
    most = max(stages.values())
    if count > most:
        raise UserError(
            f"{encoder} has {most + 1} stages, the stem included: frozen_stages={count} leaves none to train; at most "
            f"{most} can be frozen"
        )
    for name, weight in backbone.named_parameters():
        weight.requires_grad_(weight.requires_grad and stages[name] >= count)
    for name, layer in backbone.named_modules():
        if isinstance(layer, _BatchNorm) and stages.get(f"{name}.weight", count) < count:
            fix_statistics(layer)
