"""The accuracy gates of `.ci/run` see the faults that they are there for."""

import pytest

from tests.gates import GATES, MUTATIONS, gain

pytestmark = [pytest.mark.trains, pytest.mark.slow]


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_does_not_pass_the_first_gate(name: str) -> None:
    with MUTATIONS[name]():
        found = gain(GATES[0])
    assert found < GATES[0].floor / 2


def test_without_a_fault_the_first_gate_is_passed_with_a_margin() -> None:
    assert gain(GATES[0]) > 1.5 * GATES[0].floor
