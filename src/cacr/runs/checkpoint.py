"""Check the training state in a checkpoint before it is loaded.

A correct checksum proves that a file is unchanged, not who wrote it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.optim import Optimizer

from cacr.errors import UserError
from cacr.files import check_format
from cacr.reading.documents import wrong_fields
from cacr.reading.tensors import misfit
from cacr.runs.rows import Count


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)


class _OptimizerState(_Strict):
    """The state of an optimiser per weight, by the number of the weight."""

    state: dict[Count, dict[str, Any]]


class _State(_Strict):
    """The content of a checkpoint."""

    images: Count
    step: Count
    epoch: Count
    batch: Count
    method: dict[str, Tensor]
    optimizer: _OptimizerState
    average: dict[str, Tensor] = {}
    diagnostics: dict[str, float]


_STATE = TypeAdapter(_State)


def checked_state(state: object, path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint, if it is a valid training state.

    Args:
        state: the content of the file.
        path: the file, for messages.

    Raises:
        UserError: another version wrote it, or a value has a wrong type.
    """
    if not isinstance(state, dict):
        raise UserError(f"{path} is damaged (it has no training state)")
    check_format(state.get("format"), path)
    try:
        found = _STATE.validate_python(state)
    except ValidationError as error:
        raise UserError(f"{path} is damaged (it has no training state): {wrong_fields(error)}") from None
    tensors = [*found.method.items(), *found.average.items()]
    odd = [name for name, value in tensors if not _is_plain(value)]
    if odd:
        raise UserError(f"{path} is damaged: {str(odd[0])[:100]} is not an ordinary tensor")
    return state


def require_fit(
    state: dict[str, Any], method: nn.Module, optimizer: Optimizer, average: Mapping[str, Tensor] = {}
) -> None:
    """Refuse a state that does not fit this model, optimiser and average; torch does not check everything.

    A value with another shape than its weight would crash the interpreter in the next step of the optimiser.

    Raises:
        ValueError: says what does not fit.
    """
    for own, stored in ((method.state_dict(), state["method"]), (average, state.get("average", {}))):
        if wrong := misfit(own, stored):
            raise ValueError(wrong)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for number, values in state["optimizer"]["state"].items():
        if number >= len(weights):
            raise ValueError(f"there is no weight {number}")
        for name, value in values.items():
            if not _fits(value, weights[number]):
                raise ValueError(f"{name} of weight {number} does not fit it")


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Restore the state of an optimiser; its settings stay those of the run."""
    memory = state["optimizer"]["state"]
    optimizer.load_state_dict({"state": memory, "param_groups": optimizer.state_dict()["param_groups"]})


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized


def _fits(value: object, weight: Tensor) -> bool:
    """Whether a value can belong to a weight: None, a number, or a plain tensor with one number or with its shape."""
    if value is None or isinstance(value, int | float):
        return True
    if not isinstance(value, Tensor) or not _is_plain(value) or not value.is_floating_point():
        return False
    return not value.ndim or value.shape == weight.shape
