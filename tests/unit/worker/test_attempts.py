"""Slots that are kept for jobs of groups."""

import asyncio
from collections.abc import Callable

import pytest

from tests.support.builders import JOB_ID
from xmcloud.core.models import Job, Wanted
from xmcloud.core.worker_protocol import Reservation
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.attempts import Attempts
from xmcloud.worker.gate import Gate
from xmcloud.worker.orders import Fair, Order, Strict
from xmcloud.worker.run import Attempt
from xmcloud.worker.slots import Allotment, Slots

pytestmark = pytest.mark.anyio


def none_is_made(job: Job, allotment: Allotment, on_start: Callable[[], None]) -> Attempt:
    raise AssertionError(job)


def no_folder(job: Job) -> AttemptFolder:
    raise AssertionError(job)


def nobody_leaves() -> None:
    raise AssertionError


def crew(
    slots: int, order: Order | None = None, leave: Callable[[], None] = nobody_leaves
) -> Attempts:
    order = order or Strict(("high", "default"))
    found = Slots(slots, {"cpu": 4.0})
    return Attempts(found, order, Gate(), none_is_made, no_folder, leave)


def reservation() -> Reservation:
    return Reservation(job_id=JOB_ID, resources={"cpu": 3.0}, seconds=20)


def test_a_claim_has_a_port_for_each_slot() -> None:
    claim = crew(slots=3).claim({"default"})
    assert claim is not None
    assert (claim.slots, claim.queues, len(set(claim.ports))) == (3, ("default",), 3)


def test_a_place_that_is_kept_is_not_free() -> None:
    attempts = crew(slots=2)
    attempts.reserve(reservation())
    claim = attempts.claim({"default"})
    assert claim is not None
    assert (claim.slots, claim.resources) == (1, {"cpu": 1.0})
    attempts.release(JOB_ID)
    claim = attempts.claim({"default"})
    assert claim is not None
    assert (claim.slots, claim.resources) == (2, {"cpu": 4.0})


def test_a_worker_that_drains_claims_nothing_until_it_is_resumed() -> None:
    attempts = crew(slots=1)
    attempts.obey(Wanted.RUN)
    assert attempts.claim({"default"}) is not None
    attempts.obey(Wanted.DRAIN)
    assert attempts.claim({"default"}) is None
    attempts.obey(Wanted.RUN)
    assert attempts.claim({"default"}) is not None


def test_a_worker_that_people_stop_leaves() -> None:
    asked: list[str] = []
    crew(slots=1, leave=lambda: asked.append("leave")).obey(Wanted.STOP)
    assert asked == ["leave"]


def test_queues_that_are_shared_fairly_have_their_part_of_the_free_slots() -> None:
    claim = crew(slots=4, order=Fair({"high": 3, "default": 1})).claim({"default", "high"})
    assert claim is not None
    assert (claim.slots, claim.queues) == (3, ("high", "default"))


def test_who_runs_one_job_claims_it_once_and_nothing_else() -> None:
    attempts = crew(slots=1)
    attempts.want(JOB_ID)
    claim = attempts.claim({"default"})
    assert claim is not None
    assert claim.only == JOB_ID


async def test_a_worker_that_leaves_keeps_no_place(anyio_backend: str) -> None:
    attempts = crew(slots=1)
    attempts.reserve(reservation())
    async with asyncio.timeout(20):
        await attempts.leave()
    attempts.reserve(reservation())
    async with asyncio.timeout(20):
        await attempts.leave()
