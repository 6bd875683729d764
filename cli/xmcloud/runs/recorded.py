"""A run as the control plane knows it: an experiment with one job, held by a session."""

import base64
import shlex
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from xmcloud.core.errors import StaleFence, XmcloudError
from xmcloud.core.identity import DEFAULT_PROJECT
from xmcloud.core.models import Job
from xmcloud.core.names import random_id
from xmcloud.core.protocol import (
    EditExperiment,
    NewExperiment,
    NewJob,
    NewUnit,
    NewUnits,
    Stop,
)
from xmcloud.core.runs import POOL, for_its_process, own_resource
from xmcloud.core.specs import JobSpec
from xmcloud.core.version import VERSION
from xmcloud.core.worker_protocol import (
    Claim,
    Finished,
    Lease,
    OpenSession,
    Output,
    Report,
    Started,
    Sync,
    SyncAnswer,
)
from xmcloud.runs.capture.source import Captured
from xmcloud.runs.facts import Facts
from xmcloud.runs.joined import OWN_PARAMETERS
from xmcloud.runs.printed import Printed
from xmcloud.runs.session import RunClient
from xmcloud.runs.story import Ended, Story
from xmcloud.xm_cloud.identity import user
from xmcloud.xm_cloud.places import current_project

QUEUE = "default"
_NOTES_LIMIT = 20_000
_TOLD_BEFORE = f"urn:xmcloud:problem:{StaleFence.slug}"
"""The answer to the first telling was lost."""


class Recorded:
    """Methods raise as the client's do."""

    def __init__(self, client: RunClient, experiment: str, job: Job, lease: Lease) -> None:
        self._client, self._lease = client, lease
        self.experiment, self.job = experiment, job
        self.session = lease.session.id
        self.heartbeat_seconds = lease.heartbeat_seconds
        self._fence: int | None = None
        self._started = False
        self._began_at = datetime.now(UTC)

    @classmethod
    def make(cls, client: RunClient, experiment: str, story: Story, captured: Captured) -> Self:
        """Adds the job, which nobody else can take."""
        resource = own_resource(experiment)
        request = OpenSession(
            pool=POOL,
            queues=(QUEUE,),
            resources={resource: 1},
            version=VERSION,
            host=socket.gethostname(),
        )
        lease = client.open_session(resource, request)
        spec = for_its_process(definition(story, captured), resource)
        unit = NewUnit(jobs=(NewJob(name=name_of(story.facts), spec=spec, queue=QUEUE),))
        (job,) = client.add_units(experiment, NewUnits(units=(unit,)), random_id())
        return cls(client, experiment, job, lease)

    @property
    def taken(self) -> bool:
        """The job is this run's; it has to wait while its queue is paused."""
        return self._fence is not None

    def exchange(self, *reports: Report) -> SyncAnswer:
        """News and heartbeat in one; takes the job if it is not taken yet."""
        own = {own_resource(self.experiment): 1.0}
        taken = self._fence is not None
        if self._fence is not None and not self._started:
            start = Started(job_id=self.job.id, fence=self._fence, at=self._began_at)
            reports = (start, *reports)
        answer = self._client.sync(
            self.session,
            Sync(
                reports=reports,
                claim=None if taken else Claim(slots=1, queues=(QUEUE,), resources=own),
                known=None if taken else (),
                watch_stops=True,
            ),
        )
        self._started = taken
        for job in answer.jobs:
            self._fence = job.fence
            return self.exchange()
        return answer

    def tell(self, printed: Printed) -> SyncAnswer:
        """A heartbeat, with a piece of what was printed."""
        offset, data = printed.piece()
        if self._fence is None or not data:
            return self.exchange()
        encoded = base64.b64encode(data)
        output = Output(job_id=self.job.id, fence=self._fence, offset=offset, data=encoded)
        answer = self.exchange(output)
        printed.taken(len(data))
        return answer

    def tell_all(self, printed: Printed) -> None:
        """All that was printed, if the job could be taken."""
        if self._fence is None:
            self.exchange()
        while self._fence is not None and printed.piece()[1]:
            self.tell(printed)

    def finish(self, ended: Ended, results: dict[str, JsonValue]) -> None:
        """Tells how it ended, also of a job that could not be taken since its queue is paused."""
        if self._fence is None:
            self._client.stop_job(self.job.id, _as_stop(ended))
        else:
            finished = Finished(
                job_id=self.job.id,
                fence=self._fence,
                outcome=ended.outcome,
                reason=ended.reason,
                results=results,
            )
            problem = self.exchange(finished).results[-1].problem
            if problem is not None and problem.type != _TOLD_BEFORE:
                raise XmcloudError(problem.detail, problem.remedy)
        self._client.close_session(self.session)


def _as_stop(ended: Ended) -> Stop:
    asked = {"by": user(), "message": ended.reason.message[:1000], "outcome": ended.outcome}
    return Stop.model_validate(asked)


def new_experiment(client: RunClient, facts: Facts) -> str:
    """The id of one for the run that begins."""
    about = f"Python {facts.python}: {shlex.join(facts.original)}"
    new = NewExperiment(
        title=facts.title or name_of(facts),
        project=current_project() or DEFAULT_PROJECT,
        creator=user(),
        tags=(facts.project,) if facts.project else (),
        notes=_printable([about]),
    )
    return client.create_experiment(new, random_id()).id


def add_notes(client: RunClient, experiment: str, lines: Sequence[str]) -> None:
    """Below what is there."""
    if lines:
        before = client.experiment(experiment).experiment.notes
        notes = _printable([before, *lines])
        client.edit_experiment(experiment, EditExperiment(notes=notes))


def _printable(lines: Sequence[str]) -> str:
    return "\n".join(lines).encode(errors="replace").decode()[:_NOTES_LIMIT]


def name_of(facts: Facts) -> str:
    """What people call the script."""
    path = facts.notebook or facts.main
    return facts.module or (Path(path).stem if path else "python")


def definition(story: Story, captured: Captured) -> JobSpec:
    """The job that does the same again on any worker."""
    own = story.own_parameters
    environment = captured.environment | ({OWN_PARAMETERS: ",".join(own)} if own else {})
    return JobSpec(
        executable=captured.executable, arguments=story.arguments, environment=environment
    )
