"""The machine finds what it is there to find."""

from collections.abc import Callable

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.stateful.faults import FAULTS, RETURNING_FAULTS
from tests.stateful.group_faults import GROUP_FAULTS
from tests.stateful.machine import UnreliableMachine
from tests.stateful.returning import Returning
from tests.stateful.test_machine import STEADY
from tests.stateful.together import Together

HUNT = settings(
    STEADY,
    max_examples=1000,
    phases=(Phase.generate,),
    print_blob=False,
    report_multiple_bugs=False,
)

SEEDS = {"sweep_publishes_nothing": 11}
"""With which the rarest is found within seconds; with others it takes up to a minute."""


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    @seed(SEEDS.get(plant.__name__, 4))
    class Hunter(UnreliableMachine):
        pass

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_state_machine_as_test(Hunter, settings=HUNT)


@pytest.mark.parametrize("plant", GROUP_FAULTS, ids=lambda plant: plant.__name__)
def test_a_fault_of_groups_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_state_machine_as_test(Together, settings=HUNT)


@pytest.mark.parametrize("plant", RETURNING_FAULTS, ids=lambda plant: plant.__name__)
def test_a_fault_of_coming_back_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_state_machine_as_test(Returning, settings=HUNT)
