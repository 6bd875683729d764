"""Setting the secrets of a project, and handing them to the attempts that need them."""

import asyncio
from collections.abc import Iterable, Sequence

from xmcloud.core import queries
from xmcloud.core.audit import AuditEntry, Change
from xmcloud.core.control.members import load_project
from xmcloud.core.control.plane import TRIES, ControlPlane, backoff
from xmcloud.core.control.sessions import held_session
from xmcloud.core.documents import AUDIT, JOBS, SECRETS
from xmcloud.core.errors import Contended, InvalidInput, StaleFence
from xmcloud.core.models import Job
from xmcloud.core.names import random_id
from xmcloud.core.ports import PreconditionFailed
from xmcloud.core.secrets import (
    NewSecret,
    NoSecrets,
    ResolvedSecrets,
    Secret,
    SecretList,
    SecretMissing,
    Secrets,
    SecretStatus,
    checked_value,
    secret_key,
)
from xmcloud.core.specs import JobSpec
from xmcloud.core.worker_protocol import AttemptRef

RESOLVED = "resolve_secrets"
"""The action of an audit entry that tells which attempt was given secrets."""

_EVERY = 1000
"""Secrets in the list of a project."""


def _secrets(plane: ControlPlane) -> Secrets:
    if plane.secrets is None:
        raise NoSecrets("This control plane keeps no secrets.")
    return plane.secrets


async def list_secrets(plane: ControlPlane, project: str) -> SecretList:
    """By name. Raises `NotFound`."""
    await load_project(plane, project)
    page, _ = await SECRETS.find(plane.store, queries.secrets_of(project).page(_EVERY, None))
    return SecretList(secrets=[SecretStatus.of(stored.item) for stored in page])


async def set_secret(
    plane: ControlPlane, project: str, name: str, request: NewSecret
) -> SecretStatus:
    """The value goes first, so that what the list names is there. Raises `UnusableValue`.

    Who loses a race against another change of it begins again: the last word in the store is
    from whoever had the last word on the value.
    """
    value = checked_value(request.value.get_secret_value())
    await load_project(plane, project)
    for attempt in range(TRIES):
        (stored,) = await SECRETS.get_many(plane.store, [secret_key(project, name)])
        await _secrets(plane).put(project, name, value)
        secret = Secret(
            project=project, name=name, set_by=plane.caller.name, set_at=plane.clock.now()
        )
        write = SECRETS.replace(stored, secret) if stored else SECRETS.create(secret)
        try:
            await plane.store.commit([write])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        return SecretStatus.of(secret)
    raise Contended(f"Secret {name}")


async def remove_secret(plane: ControlPlane, project: str, name: str) -> SecretStatus:
    """Jobs that name it fail when they start. Raises `SecretMissing`."""
    for attempt in range(TRIES):
        (stored,) = await SECRETS.get_many(plane.store, [secret_key(project, name)])
        if stored is None or stored.item.removed:
            raise SecretMissing(project, name)
        await _secrets(plane).delete(project, name)
        try:
            await plane.store.commit([SECRETS.replace(stored, stored.item.evolve(removed=True))])
        except PreconditionFailed:
            await backoff(attempt)
            continue
        return SecretStatus.of(stored.item)
    raise Contended(f"Secret {name}")


async def check_secrets(plane: ControlPlane, project: str, specs: Iterable[JobSpec]) -> None:
    """Raises `SecretMissing` for a name the project does not have.

    Raises `InvalidInput` for a job that no worker would run. One read, if any job has secrets.
    """
    users = [spec for spec in specs if spec.secrets]
    for spec in users:
        _require_workers(plane, spec)
    names = sorted({name for spec in users for name in spec.secrets.values()})
    if names:
        await _require(plane, project, names)


def _require_workers(plane: ControlPlane, spec: JobSpec) -> None:
    target = spec.overflow.target if spec.overflow else spec.pool
    if spec.overflow or spec.pool in plane.targets or spec.platform:
        raise InvalidInput(
            "secrets",
            dict(spec.secrets),
            f"left out of a job that {target} may run: only workers are given secrets. Run it in a"
            " pool of workers, or let its service account read what it needs",
        )


async def _require(plane: ControlPlane, project: str, names: Sequence[str]) -> None:
    found = await SECRETS.get_many(plane.store, [secret_key(project, name) for name in names])
    for name, stored in zip(names, found, strict=True):
        if stored is None or stored.item.removed:
            raise SecretMissing(project, name)


async def resolve_secrets(
    plane: ControlPlane, session_id: str, attempt: AttemptRef
) -> ResolvedSecrets:
    """The values for an attempt that this session holds, noted in the audit log before.

    Raises `LeaseLost`, `NotFound`, `StaleFence` and `SecretMissing`.
    """
    session = await held_session(plane, session_id)
    job = (await JOBS.get(plane.store, attempt.job_id)).item
    held = job.attempt
    if held is None or held.session != session.id or held.fence != attempt.fence:
        raise StaleFence(job.id, attempt.fence, f"this worker does not hold it: it is {job.state}")
    names = sorted(set(job.spec.secrets.values()))
    await _require(plane, job.project, names)
    values = dict(zip(names, await _values(plane, job.project, names), strict=True))
    if names:
        await plane.store.commit([AUDIT.create(_entry(plane, job))])
    return ResolvedSecrets(
        values={variable: values[name] for variable, name in job.spec.secrets.items()}
    )


async def _values(plane: ControlPlane, project: str, names: Sequence[str]) -> list[str]:
    secrets = _secrets(plane)
    found = await asyncio.gather(*(secrets.get(project, name) for name in names))
    return [value.decode() for value in found]


def _entry(plane: ControlPlane, job: Job) -> AuditEntry:
    """Names alone."""
    told = Change(document=f"jobs/{job.id}", before={}, after={"secrets": dict(job.spec.secrets)})
    return AuditEntry(
        id=random_id(),
        at=plane.clock.now(),
        who=plane.caller.name,
        action=RESOLVED,
        project=job.project,
        subject=told.document,
        changes=(told,),
        trace=job.trace,
    )
