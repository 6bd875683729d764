"""Slots that are kept for jobs of groups."""

import asyncio
from collections.abc import Callable

import pytest

from tests.support.builders import JOB_ID
from xmcloud.core.models import Job
from xmcloud.core.worker_protocol import Reservation
from xmcloud.worker.attempts import Attempts
from xmcloud.worker.run import Attempt
from xmcloud.worker.slots import Slots

pytestmark = pytest.mark.anyio


def none_is_made(job: Job, on_start: Callable[[], None]) -> Attempt:
    raise AssertionError(job)


def crew(slots: int) -> Attempts:
    return Attempts(Slots(slots, {"cpu": 4.0}), ("high", "default"), none_is_made)


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


async def test_a_worker_that_leaves_keeps_no_place(anyio_backend: str) -> None:
    attempts = crew(slots=1)
    attempts.reserve(reservation())
    async with asyncio.timeout(20):
        await attempts.leave()
    attempts.reserve(reservation())
    async with asyncio.timeout(20):
        await attempts.leave()
