"""The state of a training in a checkpoint, checked before anything is loaded from it.

A right checksum says that a file is as it was written, not who wrote it.
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
    """An optimiser's memory of each weight, by the weight's number."""

    state: dict[Count, dict[str, Any]]


class _State(_Strict):
    """What a checkpoint holds."""

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
    """The content of a checkpoint, if it is the state of a training.

    Args:
        state: what was read.
        path: the file, for messages.

    Raises:
        UserError: another version wrote it, or a value is of another type.
    """
    if not isinstance(state, dict):
        raise UserError(f"{path} is damaged (it holds no state of a training)")
    check_format(state.get("format"), path)
    try:
        found = _STATE.validate_python(state)
    except ValidationError as error:
        raise UserError(
            f"{path} is damaged (it holds no state of a training): {wrong_fields(error)}"
        ) from None
    tensors = [*found.method.items(), *found.average.items()]
    odd = [name for name, value in tensors if not _is_plain(value)]
    if odd:
        raise UserError(f"{path} is damaged: {str(odd[0])[:100]} is no ordinary tensor")
    return state


def require_fit(
    state: dict[str, Any], method: nn.Module, optimizer: Optimizer, average: Mapping[str, Tensor] = {}
) -> None:
    """Refuse a checked state that is not of this model, optimiser and average; torch does not look at all of it.

    A number of another shape than its weight's ends the interpreter in the optimiser's next step.

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
    """Give an optimiser its memory back from a state that fits it; its settings stay those of the run."""
    memory = state["optimizer"]["state"]
    optimizer.load_state_dict({"state": memory, "param_groups": optimizer.state_dict()["param_groups"]})


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized


def _fits(value: object, weight: Tensor) -> bool:
    """Whether a value can belong to a weight: None, a number, or a plain tensor of one number or of its shape."""
    if value is None or isinstance(value, int | float):
        return True
    if not isinstance(value, Tensor) or not _is_plain(value) or not value.is_floating_point():
        return False
    return not value.ndim or value.shape == weight.shape
