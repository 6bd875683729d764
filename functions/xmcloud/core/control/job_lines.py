"""A line in the log for each change of a job's state, with the trace of the job."""

import logging
from collections.abc import Iterable

from xmcloud.core.logs import about
from xmcloud.core.models import Job

logger = logging.getLogger("xmcloud.jobs")


def log_changes(changes: Iterable[tuple[Job | None, Job]]) -> None:
    """Before and after; None before a job is made.

    Reasons go by their code alone: their message may end with what the job printed.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    for before, job in changes:
        if before is None or before.state is not job.state:
            _log(before, job)


def _log(before: Job | None, job: Job) -> None:
    attempt = job.attempts[-1] if job.attempts and before is not None else None
    place = {"attempt": attempt.fence, "worker": attempt.worker} if attempt else {}
    logger.info(
        "job %s is %s: %s",
        job.id,
        job.state,
        job.reason.code,
        extra=about(
            job.trace,
            job=job.id,
            experiment=job.experiment_id,
            project=job.project,
            state=job.state,
            before=before.state if before else None,
            reason=job.reason.code,
            queue=job.queue,
            **place,
        ),
    )
