"""The control plane keeps its promises whatever happens, in whatever order."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.stateful.machine import SqliteMachine, UnreliableMachine
from tests.stateful.returning import Returning
from tests.stateful.together import Together
from xmcloud.core.indexes import require_index
from xmcloud.core.ports import Query

STEADY = settings(
    derandomize=True,
    deadline=None,
    print_blob=True,
    database=None,
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
)


def test_with_the_embedded_queue() -> None:
    """Every query it asks is served by an index."""
    asked: set[Query] = set()

    class Asking(SqliteMachine):
        def teardown(self) -> None:
            super().teardown()
            asked.update(self.rig.recording.queries)

    run_state_machine_as_test(Asking, settings=settings(STEADY, max_examples=25))
    for query in asked:
        require_index(query)


def test_with_an_unreliable_broker() -> None:
    run_state_machine_as_test(UnreliableMachine, settings=settings(STEADY, max_examples=50))


def test_groups_and_targets() -> None:
    run_state_machine_as_test(Together, settings=settings(STEADY, max_examples=30))


def test_workers_that_come_back() -> None:
    run_state_machine_as_test(Returning, settings=settings(STEADY, max_examples=30))
