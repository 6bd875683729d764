"""A client that writes down what a launch asks for, and sends nothing."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

from xmcloud.core.builds import Build, BuildSpec, requested
from xmcloud.core.errors import XmcloudError
from xmcloud.core.models import Experiment, Job, JobState, Member, Reason, ReasonCode
from xmcloud.core.names import derived_id, job_id
from xmcloud.core.protocol import EditExperiment, NewBuild, NewExperiment, NewUnit, NewUnits
from xmcloud.xm_cloud.client import Client, Method
from xmcloud.xm_cloud.places import named_elsewhere

HERE = "http://127.0.0.1"
_CREATED = Reason(code=ReasonCode.CREATED, message="a dry run")


class NotInADryRun(XmcloudError):
    """Only a control plane can give the answer."""

    slug, title, status = "not-in-a-dry-run", "Not in a dry run", 409

    def __init__(self, what: str) -> None:
        super().__init__(f"The script {what}, which a dry run cannot.")
        self.what = what


class Recorded(NamedTuple):
    """What would have been sent, with made-up ids."""

    experiments: dict[str, Experiment]
    jobs: list[Job]
    builds: dict[str, BuildSpec]


class Recorder(Client):
    """Opens no connection. Raises `NotInADryRun` for every request that does not add something."""

    dry: ClassVar[bool] = True

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.url = named_elsewhere(environ) or HERE
        self.recorded = Recorded({}, [], {})
        self.ended: NotInADryRun | None = None

    def close(self) -> None:
        """There is nothing to close."""

    def create_experiment(self, new: NewExperiment, key: str | None = None) -> Experiment:
        experiment = Experiment(
            id=derived_id("dry run", len(self.recorded.experiments) + 1),
            **dict(new),
            created_at=datetime.now(UTC),
            request="0" * 64,
        )
        return self._keep(experiment)

    def edit_experiment(self, id: str, edit: EditExperiment) -> Experiment:
        changes = {name: getattr(edit, name) for name in edit.model_fields_set}
        return self._keep(self.recorded.experiments[id].evolve(**changes))

    def add_units(self, experiment: str, new: NewUnits, key: str | None = None) -> list[Job]:
        before = self.recorded.experiments[experiment]
        jobs: list[Job] = []
        for number, unit in enumerate(new.units, before.units + 1):
            jobs += _jobs_of(experiment, number, unit)
        self._keep(before.evolve(units=before.units + len(new.units)))
        self.recorded.jobs.extend(jobs)
        return jobs

    def has_blob(self, digest: str) -> bool:
        """As if it were there: nothing goes up."""
        return True

    def create_build(self, new: NewBuild, key: str | None = None) -> Build:
        build = requested(new.spec, new.by, datetime.now(UTC))
        self.recorded.builds[build.id] = new.spec
        return build

    def _keep(self, experiment: Experiment) -> Experiment:
        self.recorded.experiments[experiment.id] = experiment
        return experiment

    def _request(self, method: Method, path: str, **_: Any) -> Any:
        error = NotInADryRun(_need(method, path))
        self.ended = self.ended or error
        raise error


def _jobs_of(experiment: str, number: int, unit: NewUnit) -> list[Job]:
    now = datetime.now(UTC)
    ids = [job_id(experiment, str(number), index) for index in range(len(unit.jobs))]
    members = tuple(Member(id=id, name=new.name) for id, new in zip(ids, unit.jobs, strict=True))
    return [
        Job(
            id=id,
            experiment_id=experiment,
            unit=number,
            name=new.name,
            group=members if len(members) > 1 else (),
            auxiliary=unit.auxiliary,
            spec=new.spec,
            state=JobState.DRAFT,
            reason=_CREATED,
            queue=new.queue or "default",
            position=0,
            created_at=now,
            updated_at=now,
            batch="0" * 64,
        )
        for id, new in zip(ids, unit.jobs, strict=True)
    ]


def _need(method: str, path: str) -> str:
    if path.endswith("/changes"):
        return "waits for its jobs"
    if path.endswith("/stop"):
        return "stops a job"
    if "/jobs" in path:
        return "asks how its jobs are"
    return f"asks the control plane ({method} {path})"
