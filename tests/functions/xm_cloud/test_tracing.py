"""One trace for a command, and one for each launch from Python."""

import asyncio

import pytest

from xmcloud import xm, xm_cloud
from xmcloud.core import trace
from xmcloud.core.models import Job
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Command, JobSpec
from xmcloud.core.trace import Trace
from xmcloud.xm_cloud import tracing
from xmcloud.xm_cloud.client import Client


def enqueued(client: Client) -> Job:
    experiment = client.create_experiment(NewExperiment(title="test")).id
    spec = JobSpec(executable=Command(command=("true",)))
    unit = NewUnit(jobs=(NewJob(name="job", spec=spec),))
    (job,) = client.add_units(experiment, NewUnits(units=(unit,)))
    return job


def trace_of(job: Job) -> str:
    parsed = Trace.parse(job.trace)
    assert parsed is not None
    return parsed.trace_id


def test_all_requests_of_a_command_are_of_its_trace(url: str) -> None:
    with tracing.command("xmcloud run") as span:
        connected = xm_cloud.connect()
        in_thread = asyncio.run(asyncio.wait_for(asyncio.to_thread(enqueued, connected), 20))
        assert {trace_of(enqueued(connected)), trace_of(in_thread)} == {span.trace.trace_id}
        connected.close()
    with tracing.command("xmcloud run") as other:
        assert other.trace.trace_id != span.trace.trace_id


def test_a_command_goes_on_with_what_it_was_started_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = Trace.new()
    monkeypatch.setenv("TRACEPARENT", str(above))
    with tracing.command("xmcloud run") as span:
        assert span.trace.trace_id == above.trace_id
    with xm_cloud.connect() as client:
        assert trace_of(enqueued(client)) == above.trace_id


def test_each_launch_from_python_is_a_trace_of_its_own(url: str, client: Client) -> None:
    found: list[set[str]] = []
    for title in ("first", "second"):
        with xm_cloud.create_experiment(title) as experiment:
            spec = xm_cloud.WorkerPool.Spec()
            [executable] = experiment.package([xm.binary(spec, "/bin/true")])
            for _ in range(3):
                experiment.add(xm.Job(executable, xm_cloud.WorkerPool(pool="lab")))
        found.append({trace_of(job) for job in client.jobs_of(experiment.experiment_id)})
    first, second = found
    assert len(first) == len(second) == 1
    assert first != second


def test_what_is_current_wins(url: str, client: Client) -> None:
    with trace.span("mine") as mine:
        assert trace_of(enqueued(client)) == mine.trace.trace_id
    assert trace_of(enqueued(client)) != mine.trace.trace_id
