"""Models as documents: the fields that queries use, and the whole model as JSON text.

The text keeps every value as it was typed, which no database's own types do (Firestore has no
arrays in arrays and no integers over 64 bits), and needs no index.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from xmcloud.core.audit import AuditEntry
from xmcloud.core.base import Model, sortable
from xmcloud.core.builds import Build
from xmcloud.core.errors import NotFound, TooLarge
from xmcloud.core.identity import ApiToken, Member, Project
from xmcloud.core.models import (
    Experiment,
    Job,
    JobState,
    PoolState,
    QueueState,
    Session,
    TargetState,
)
from xmcloud.core.ports import Document, JsonObject, Query, Store, Version, Write
from xmcloud.core.quotas import Turnstile
from xmcloud.core.secrets import Secret
from xmcloud.core.usage import Usage, gpus_of

BODY_LIMIT = 512 * 1024
"""Bytes of one document's text; Firestore's own limit is 1 MiB a document."""

KEPT = timedelta(days=400)
"""How long Firestore keeps what is a record of the past: a year, and a month to look back."""

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Stored(Generic[M]):
    """A model as it was read, with the document whose version a conditional write names."""

    item: M
    document: Document


@dataclass(frozen=True, slots=True)
class Collection(Generic[M]):
    """How one kind of model is kept."""

    name: str
    model: type[M]
    key: Callable[[M], str]
    indexed: Callable[[M], JsonObject]

    def data(self, item: M) -> JsonObject:
        """Raises `TooLarge`."""
        body = item.model_dump_json()
        size = len(body.encode())
        if size > BODY_LIMIT:
            raise TooLarge(f"This {self.model.__name__.lower()}", size, BODY_LIMIT)
        return {**self.indexed(item), "body": body}

    def create(self, item: M) -> Write:
        return Write.create(self.name, self.key(item), self.data(item))

    def replace(self, stored: Stored[M], item: M) -> Write:
        return Write.replace(self.name, stored.document, self.data(item))

    def written(self, item: M, version: Version) -> Stored[M]:
        """The model as it stands after a write that answered `version`."""
        return Stored(item, Document(self.key(item), {}, version))

    def read(self, document: Document) -> Stored[M]:
        return Stored(self.model.received(str(document.data["body"])), document)

    async def get(self, store: Store, id: str) -> Stored[M]:
        """Raises `NotFound`."""
        (document,) = await store.get(self.name, [id])
        if document is None:
            raise NotFound(self.model.__name__.lower(), id)
        return self.read(document)

    async def get_many(self, store: Store, ids: Sequence[str]) -> list[Stored[M] | None]:
        documents = await store.get(self.name, ids)
        return [None if found is None else self.read(found) for found in documents]

    async def find(self, store: Store, query: Query) -> tuple[list[Stored[M]], str | None]:
        page = await store.find(query)
        return [self.read(document) for document in page.documents], page.cursor


def _job_fields(job: Job) -> JsonObject:
    fields: JsonObject = {
        "id": job.id,
        "experiment_id": job.experiment_id,
        "project": job.project,
        "creator": job.creator,
        "unit": job.unit,
        "state": job.state.value,
        "queue": job.queue,
        "pool": job.pool,
        "position": job.position,
        "updated_at": sortable(job.updated_at),
        "session": job.attempt.session if job.attempt else "",
        "stop_requested": job.stop is not None,
        "build": (job.pending_build or "") if job.state is JobState.BUILDING else "",
        "auxiliary": job.auxiliary is not None,
        "helps": job.auxiliary is not None and not job.state.terminal,
        "remote": job.attempt.remote.name if job.attempt and job.attempt.remote else "",
        "holds_gpus": job.attempt is not None and gpus_of(job.spec) > 0,
    }
    if job.waiting is not None:
        fields["permit_due_at"] = sortable(job.waiting.permit_due_at)
        if job.waiting.overflow_at is not None:
            fields["overflow_at"] = sortable(job.waiting.overflow_at)
    return fields


def _session_fields(session: Session) -> JsonObject:
    return {
        "worker": session.worker,
        "open": session.open,
        "expires_at": sortable(session.expires_at),
        "settled": session.settled,
    }


JOBS = Collection("jobs", Job, lambda job: job.id, _job_fields)
EXPERIMENTS = Collection(
    "experiments",
    Experiment,
    lambda experiment: experiment.id,
    lambda experiment: {
        "id": experiment.id,
        "project": experiment.project,
        "created_at": sortable(experiment.created_at),
    },
)
QUEUES = Collection(
    "queues",
    QueueState,
    lambda queue: queue.name,
    lambda queue: {"priority": queue.priority, "paused": queue.paused},
)
SESSIONS = Collection("sessions", Session, lambda session: session.id, _session_fields)
POOLS = Collection("pools", PoolState, lambda pool: pool.name, lambda pool: {})
TARGETS = Collection("targets", TargetState, lambda target: target.name, lambda target: {})
BUILDS = Collection(
    "builds",
    Build,
    lambda build: build.id,
    lambda build: {
        "id": build.id,
        "open": not build.state.terminal,
        "remote": build.remote,
        "created_at": sortable(build.created_at),
    },
)
PROJECTS = Collection(
    "projects", Project, lambda project: project.name, lambda project: {"name": project.name}
)
MEMBERS = Collection(
    "members", Member, lambda member: member.name, lambda member: {"name": member.name}
)
TOKENS = Collection(
    "tokens",
    ApiToken,
    lambda token: token.id,
    lambda token: {"project": token.project, "created_at": sortable(token.created_at)},
)
SECRETS = Collection(
    "secrets",
    Secret,
    lambda secret: secret.key,
    lambda secret: {"project": secret.project, "removed": secret.removed},
)
AUDIT = Collection(
    "audit",
    AuditEntry,
    lambda entry: entry.id,
    lambda entry: {
        "at": sortable(entry.at),
        "who": entry.who,
        "project": entry.project,
        "subject": entry.subject,
        "gone_at": sortable(entry.at + KEPT),
    },
)
USAGE = Collection(
    "usage",
    Usage,
    lambda usage: usage.id,
    lambda usage: {
        "project": usage.project,
        "person": usage.person,
        "month": usage.month,
        "gpu_seconds": usage.gpu_seconds,
        "gone_at": sortable(usage.ended_at + KEPT),
    },
)
TURNSTILES = Collection("turnstiles", Turnstile, lambda stile: stile.project, lambda stile: {})
