"""The same machine over Firestore and Pub/Sub."""

import itertools

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.stateful.machine import EmulatedMachine
from tests.stateful.test_machine import STEADY
from tests.support.planes import make_bucket

pytestmark = pytest.mark.emulator


def test_on_the_emulators(gcp_project: str) -> None:
    numbers = itertools.count()

    class Here(EmulatedMachine):
        bucket = make_bucket(gcp_project)

        @staticmethod
        def project() -> str:
            """Another for each example, so that nothing of an earlier one is there."""
            return f"{gcp_project}-{next(numbers)}"

    run_state_machine_as_test(
        Here, settings=settings(STEADY, max_examples=8, stateful_step_count=20)
    )
