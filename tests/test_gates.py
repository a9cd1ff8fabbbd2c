"""The accuracy gates of `.ci/run` see the faults that they are there for."""

import pytest

from tests.gates import GATES, MUTATIONS, Gate, gain

pytestmark = [pytest.mark.trains, pytest.mark.slow]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_does_not_pass(name: str, gate: Gate) -> None:
    with MUTATIONS[name]():
        assert gain(gate) < gate.floor / 2


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_without_a_fault_a_gate_is_passed_with_a_margin(gate: Gate) -> None:
    assert gain(gate) > 1.5 * gate.floor
