"""The layers of a backbone, from the image to the features: which are trained, and at which rate."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from cacr.encoders.batch_norm import fix_statistics
from cacr.errors import UserError


def layers_of(backbone: nn.Module, *, stages: bool = False) -> dict[str, int]:
    """The layer number of each weight, from 0 at the image, by the name of the weight.

    Args:
        backbone: A timm model, which knows its layers; in others each child is a layer, and weights without one are
            first.
        stages: Count whole stages, such as ``layer1`` of a ResNet, instead of single blocks; the stem is the first.
    """
    names = [name for name, _ in backbone.named_parameters()]
    if not hasattr(backbone, "group_matcher"):
        number = {name: place for place, (name, _) in enumerate(backbone.named_children())}
        return {name: number.get(name.partition(".")[0], 0) for name in names}
    from timm.models import group_parameters

    found: dict[str, int] = group_parameters(backbone, backbone.group_matcher(coarse=stages), reverse=True)  # type: ignore[operator]
    return {name: found[name] for name in names}


def rates_of(backbone: nn.Module, decay: float) -> dict[str, float]:
    """Factor on the learning rate of each weight: 1 in the last layer, ``decay`` in the one before, and so on.

    decay^(L - l) in layer l of 0 ... L.
    """
    layers = layers_of(backbone)
    last = max(layers.values())
    return {name: decay ** (last - number) for name, number in layers.items()}


def freeze_stages(backbone: nn.Module, count: int, encoder: str) -> None:
    """Do not train the weights and batch-norm statistics of the first ``count`` stages.

    Raises:
        UserError: the encoder has fewer stages, or would have none left to train.
    """
    stages = layers_of(backbone, stages=True)
    most = max(stages.values())
    if count > most:
        raise UserError(
            f"{encoder} has {most + 1} stages, including the stem: frozen_stages={count} leaves none to train; use at "
            f"most {most}"
        )
    for name, weight in backbone.named_parameters():
        weight.requires_grad_(weight.requires_grad and stages[name] >= count)
    for name, layer in backbone.named_modules():
        if isinstance(layer, _BatchNorm) and stages.get(f"{name}.weight", count) < count:
            fix_statistics(layer)
