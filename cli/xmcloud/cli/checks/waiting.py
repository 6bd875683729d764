"""Jobs that wait for somebody who is not there."""

from collections.abc import Iterator
from urllib.parse import quote

from xmcloud.cli.checks.check import Check
from xmcloud.cli.checks.line import Line, Place
from xmcloud.cli.rows import full_reference
from xmcloud.core.protocol import Cause, CauseCode, Jobs, Pending, QueueStatus

_JOBS = 3
_NOBODY = {
    CauseCode.NO_WORKER,
    CauseCode.NO_TARGET,
    CauseCode.QUEUE_NOT_SERVED,
    CauseCode.TOO_LARGE,
    CauseCode.GROUP_TOO_LARGE,
}


def check_waiting(place: Place, status: QueueStatus) -> Iterator[Check]:
    """Of the first jobs in the queue: a warning for each kind of cause."""
    queue = status.queue.name
    name, found = f"Queue {queue}", dict[CauseCode, tuple[str, Cause]]()
    with Line(place) as line:
        for job in line.get(Jobs, f"/v1/queues/{quote(queue)}/jobs?limit={_JOBS}").jobs:
            for cause in line.get(Pending, f"/v1/jobs/{job.id}/pending").causes[:1]:
                found.setdefault(cause.code, (full_reference(job), cause))
    stuck = [each for code, each in found.items() if code in _NOBODY]
    for reference, cause in stuck:
        detail = f"job {reference} waits because {cause.message.rstrip('.')}"
        yield Check.warning(name, detail, cause.remedy or f"xmcloud show {reference}")
    if not stuck:
        jobs = "1 job waits" if status.waiting == 1 else f"{status.waiting} jobs wait"
        yield Check.ok(name, f"{jobs}, the first for nobody who is not there")
