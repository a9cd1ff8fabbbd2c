"""t+ and t-: the scales of the weights of positives and negatives in an objective.

The weights of CACR are exp(t+ d) and exp(-t- d) with d = ||x - y||^2 = 2 - 2 cos. An objective with a temperature tau
on cosines gives its negatives the weights exp(cos / tau), which is the same with t- = 1 / (2 tau).
"""

import math
from collections.abc import Mapping
from inspect import signature
from typing import Any

from cacr.errors import UserError
from cacr.losses import OBJECTIVES

T_POS, T_NEG = 1.0, 2.0
"""The paper's values, for objectives without their own."""

SIGNS = {"softmax": 1, "uniform": 0, "flipped": -1}
"""``pos_weights`` or ``neg_weights`` -> sign of t+ or t- in the weights."""


def t_pos(objective: str, options: Mapping[str, Any]) -> float:
    """t+ of an objective with these options, or the paper's value if it has none."""
    found = _option(objective, options, "t_pos")
    return T_POS if found is None else found


def t_neg(objective: str, options: Mapping[str, Any]) -> float:
    """t- of an objective with these options, 1 / (2 tau) if it has a temperature, or else the paper's value."""
    found, temperature = (_option(objective, options, name) for name in ("t_neg", "temperature"))
    if found is None and temperature:
        return 1 / (2 * temperature)
    return T_NEG if found is None else found


def weighing(objective: str, options: Mapping[str, Any]) -> tuple[float, float]:
    """t+ and t- with the signs of the weights of the objective: 0 for equal weights, negative for flipped ones."""
    return (
        _sign(objective, options, "pos_weights") * t_pos(objective, options),
        _sign(objective, options, "neg_weights") * t_neg(objective, options),
    )


def _sign(objective: str, options: Mapping[str, Any], name: str) -> int:
    """1, unless the objective has an option that says otherwise.

    Raises:
        UserError: the option has an unknown value.
    """
    value = options.get(name, "softmax") if name in signature(OBJECTIVES[objective]).parameters else "softmax"
    if not isinstance(value, str) or value not in SIGNS:
        raise UserError(f"{name} of objective {objective} cannot be {str(value)[:100]}")
    return SIGNS[value]


def _option(objective: str, options: Mapping[str, Any], name: str) -> float | None:
    """The value of an option, or its default in the objective; None if the objective has no such option.

    Raises:
        UserError: there is no such objective, or the option is not a number.
    """
    known = signature(OBJECTIVES[objective]).parameters
    if name not in known:
        return None
    value = options.get(name, known[name].default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UserError(f"{name} of objective {objective} cannot be {str(value)[:100]}")
    return float(value)
