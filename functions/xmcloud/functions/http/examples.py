"""Examples of requests for the OpenAPI document; they are models, so they cannot be wrong."""

from datetime import UTC, datetime
from typing import Any

from fastapi import Body
from fastapi.params import Body as BodyParameter
from pydantic import BaseModel

from xmcloud.core.blobs import CompleteBlob
from xmcloud.core.builds import BuildSpec
from xmcloud.core.identity import Quota, Role
from xmcloud.core.member_protocol import EditProject, NewProject, NewRole, NewToken
from xmcloud.core.models import Outcome, Reason, ReasonCode
from xmcloud.core.protocol import (
    Act,
    CloneExperiment,
    EditExperiment,
    EditJob,
    Enqueue,
    Move,
    NewBuild,
    NewExperiment,
    NewJob,
    NewQueue,
    NewUnit,
    NewUnits,
    Stop,
)
from xmcloud.core.secrets import NewSecret
from xmcloud.core.specs import Argument, Command, Image, JobSpec, Limits, PythonSource
from xmcloud.core.transfer import ImportDocuments, NewImport, StoredDocument
from xmcloud.core.worker_protocol import (
    AttemptRef,
    AttemptReports,
    Claim,
    DeliveryRef,
    Finished,
    OpenSession,
    Output,
    Pull,
    Settle,
    Started,
    SubscriptionRef,
    Sync,
)

JOB = "abcdefghij234567"


def body(**examples: BaseModel) -> BodyParameter:
    """A request body with its examples by name."""
    shown: dict[str, Any] = {
        name: {
            "summary": name.replace("_", " ").capitalize(),
            "value": example.model_dump(mode="json", exclude_unset=True),
        }
        for name, example in examples.items()
    }
    parameter: BodyParameter = Body(openapi_examples=shown)
    return parameter


_TRAIN = JobSpec(
    executable=PythonSource(
        kind="python_source",
        archive="0123456789abcdef" * 4,
        entrypoint=("python", "-m", "train"),
        requirements="numpy==2.1.0",
    ),
    arguments=(Argument(name="lr", value=0.01), Argument(name="layers", value=[64, 32])),
    environment={"TOKENIZERS_PARALLELISM": "false"},
    resources={"cpu": 4, "memory": 8e9},
    limits=Limits(retries=1, runtime_seconds=3600),
)
_COMMAND = JobSpec(executable=Command(kind="command", command=("echo", "hello")))
_PERMITS = SubscriptionRef(topic="queue-default", audience="local")

NEW_EXPERIMENT = body(
    an_experiment=NewExperiment(
        title="Learning rates", creator="ada", tags=("digits",), notes="Which rate is best?"
    )
)
_TRAINER = JobSpec(executable=Image(kind="image", build=JOB), resources={"t4": 1}, pool="vertex")
_GROUP = NewUnits(
    units=(
        NewUnit(
            jobs=(
                NewJob(name="chief", spec=_TRAINER),
                NewJob(name="worker", spec=_TRAINER.evolve(replicas=2)),
            )
        ),
    )
)
NEW_UNITS = body(
    a_group_in_the_cloud=_GROUP,
    a_command=NewUnits(units=(NewUnit(jobs=(NewJob(name="hello", spec=_COMMAND),)),)),
    a_python_program=NewUnits(
        units=(NewUnit(jobs=(NewJob(name="train", spec=_TRAIN, queue="high"),)),)
    ),
)
NEW_BUILD = body(
    an_image=NewBuild(spec=BuildSpec(archive="0123456789abcdef" * 4, name="digits"), by="ada")
)
CLONE = body(
    with_another_flag=CloneExperiment(creator="ada", arguments={"lr": 0.001}),
    at_another_commit=CloneExperiment(
        creator="ada", commit="0123456789abcdef0123456789abcdef01234567", queue="high"
    ),
    with_another_package=CloneExperiment(creator="ada", packages=("numpy==2.2.0",)),
)
ACT = body(who_asks=Act(by="ada"))
ENQUEUE = body(in_a_queue=Enqueue(by="ada", queue="high"))
STOP = body(with_a_reason=Stop(by="ada", message="the loss diverged", outcome=Outcome.FAILED))
MOVE = body(
    to_the_front=Move(by="ada", to="front"),
    to_another_queue=Move(by="ada", to="back", queue="low"),
)
EDIT_EXPERIMENT = body(other_notes=EditExperiment(notes="0.01 is best."))
EDIT_JOB = body(another_name=EditJob(name="train-again"), another_definition=EditJob(spec=_TRAIN))
NEW_QUEUE = body(a_queue=NewQueue(name="nightly", priority=10))
OPEN_SESSION = body(
    a_worker=OpenSession(
        pool="local", queues=("high", "default"), slots=2, resources={"cpu": 8, "memory": 3.2e10}
    )
)
SYNC = body(
    a_heartbeat=Sync(watch_stops=True),
    a_claim=Sync(claim=Claim(slots=2, queues=("high", "default"), resources={"cpu": 8})),
    news=Sync(
        reports=(
            Started(event="started", job_id=JOB, fence=1, at=datetime(2030, 1, 1, tzinfo=UTC)),
            Output(event="output", job_id=JOB, fence=1, offset=0, data=b"bG9zcyAwLjMK"),
            Finished(
                event="finished",
                job_id=JOB,
                fence=1,
                outcome=Outcome.COMPLETED,
                reason=Reason(code=ReasonCode.EXITED, message="exit code 0", exit_code=0),
                results={"accuracy": 0.97},
            ),
        )
    ),
)
PULL = body(permits=Pull(subscriptions=(_PERMITS,), limit=2, wait_seconds=30))
_DELIVERY = DeliveryRef(subscription=_PERMITS, body=JOB, receipt="41:1")
SETTLE = body(
    acknowledge=Settle(deliveries=(_DELIVERY,)),
    give_back=Settle(deliveries=(_DELIVERY,), delay_seconds=10),
)
ATTEMPT_REPORTS = body(
    a_question=AttemptReports(),
    output=AttemptReports(
        reports=(Output(event="output", job_id=JOB, fence=1, offset=0, data=b"bG9zcyAwLjMK"),)
    ),
)
COMPLETE_BLOB = body(two_parts=CompleteBlob(parts=("0123456789abcdef" * 4, "89abcdef01234567" * 4)))
NEW_PROJECT = body(project=NewProject(name="vision"))
EDIT_PROJECT = body(
    quotas=EditProject(quota=Quota(running=50, gpu_hours=2000), person_quota=Quota(queued=500))
)
NEW_ROLE = body(member=NewRole(role=Role.MEMBER))
NEW_SECRET = body(a_key=NewSecret.model_validate({"value": "the value itself"}))
HELD_ATTEMPT = body(an_attempt=AttemptRef(job_id=JOB, fence=1))
NEW_TOKEN = body(nightly=NewToken(name="nightly sweeps", role=Role.MEMBER, days=365))
NEW_IMPORT = body(an_archive=NewImport(version="0.1.0", schema_version=2))
_QUEUE = (
    '{"name":"nightly","priority":10,"paused":false,"created_at":"2030-01-01T00:00:00.000000Z"}'
)
IMPORT_DOCUMENTS = body(
    a_queue=ImportDocuments(
        collection="queues",
        documents=(StoredDocument(id="nightly", data={"priority": 10, "body": _QUEUE}),),
    )
)
