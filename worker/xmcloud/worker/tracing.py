"""Attempts and requests as parts of the trace of their job."""

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any

from xmcloud.core import trace
from xmcloud.core.models import Job, Outcome
from xmcloud.core.trace import Trace, Value
from xmcloud.worker.news import Ending


def context_of(job: Job) -> Context:
    """For a task that works for the job: what it logs and asks for belongs to the job's trace."""
    context = copy_context()
    context.run(trace.enter, Trace.parse(job.trace))
    return context


async def traced_attempt(job: Job, work: Coroutine[Any, Any, Ending]) -> Ending:
    """The work as a span, below the request that put the job into its queue."""
    about: dict[str, Value] = {
        "xmcloud.job": job.id,
        "xmcloud.experiment": job.experiment_id,
        "xmcloud.attempt": job.fence,
    }
    with trace.span("attempt", "consumer", about) as span:
        ending = await work
        span.set({"xmcloud.outcome": ending.outcome.value})
        if ending.outcome is not Outcome.COMPLETED:
            span.fail(ending.reason.code.value)
        return ending


@contextmanager
def traced(method: str, path: str) -> Iterator[dict[str, str]]:
    """A request's headers, and its span if it is for a job.

    What is for no job, such as a heartbeat, asks nobody to record it.
    """
    if trace.current() is None:
        yield {trace.HEADER: str(Trace.new(sampled=False))}
        return
    about: dict[str, Value] = {"http.request.method": method, "url.path": path.partition("?")[0]}
    with trace.span(method, "client", about) as span:
        yield {trace.HEADER: str(span.trace)}
