"""How long a claim takes with few and with many jobs in the queue."""

import asyncio
import os
import time

from benchmarks.backends import kind_of
from benchmarks.figures import Figure, median
from benchmarks.stack import Stack
from xmcloud.core.models import Outcome, Reason, ReasonCode
from xmcloud.core.protocol import NewQueue
from xmcloud.core.worker_protocol import Claim, Finished, OpenSession, Sync
from xmcloud.worker.client import ApiClient
from xmcloud.xm_cloud.places import address


def claim_latency(stack: Stack, few: int, many: int, claims: int) -> list[Figure]:
    """The same queue first short, then long; claimed by a worker that runs nothing."""
    samples: dict[int, list[float]] = {}
    stack.client.create_queue(NewQueue(name="claims"))
    experiment = stack.experiment("claims")
    filled = 0
    for size in (few, many):
        stack.submit(experiment, ("true",), size - filled, queue="claims")
        filled = size
        samples[size] = asyncio.run(_claims(claims))
        filled -= claims
    return [
        Figure(
            f"claim with {many:,} queued, p50, {kind_of(stack)}",
            median(samples[many]),
            "ms",
            median(samples[few]),
            f"with {few}",
            1.2,
            on_ratio=True,
        )
    ]


async def _claims(count: int) -> list[float]:
    place = address(os.environ)
    reason = Reason(code=ReasonCode.EXITED, message="done", exit_code=0)
    samples = []
    async with ApiClient.to(place.url, place.credentials) as client:
        lease = await client.open_session("bench", OpenSession(queues=("claims",)))
        claim = Sync(claim=Claim(slots=1, queues=("claims",)))
        for _ in range(count):
            began = time.perf_counter()
            answer = await client.sync(lease.session.id, claim)
            samples.append((time.perf_counter() - began) * 1e3)
            (job,) = answer.jobs
            done = Finished(
                job_id=job.id, fence=job.fence, outcome=Outcome.COMPLETED, reason=reason
            )
            await client.sync(lease.session.id, Sync(reports=(done,)))
        await client.close_session(lease.session.id)
    return samples
