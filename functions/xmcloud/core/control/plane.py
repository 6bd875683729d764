"""What every use case works with."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Self

from xmcloud.core.attempt_tokens import AttemptTokens
from xmcloud.core.control.auditing import AuditedStore
from xmcloud.core.control.quota_cache import QuotaCache
from xmcloud.core.identity import Principal
from xmcloud.core.migrations import SchemaSeen
from xmcloud.core.models import Job
from xmcloud.core.platforms import Builder, Platform
from xmcloud.core.ports import Blobs, Clock, Queue, Store
from xmcloud.core.secrets import Secrets
from xmcloud.core.signals import Signals

TRIES = 12
"""Rounds of load, decide and apply before a request gives up with `Contended`."""


@dataclass(frozen=True, slots=True)
class Target:
    """A platform that takes jobs from the queues, and how many of them.

    `limit` jobs at a time, and `per_minute` submissions.
    """

    platform: Platform
    limit: int = 100
    per_minute: float = 50


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The ports, and what is particular to this deployment.

    `alarm` is told that a subject falls due, and again when it does so at another time, for who
    sweeps on time. `look_again` is how often a
    waiting request looks for changes made by other processes, and `overlap` how much later a
    write may become visible than the time it carries. `url` is where jobs in the cloud reach
    the API. `caller` is whom a request is of; the control plane itself may do everything. `trace`
    is what jobs that it enqueues belong to.
    """

    store: Store
    queue: Queue
    blobs: Blobs
    clock: Clock
    lease: timedelta = timedelta(seconds=30)
    heartbeat: timedelta = timedelta(seconds=10)
    look_again: timedelta = timedelta(seconds=2)
    overlap: timedelta = timedelta(seconds=2)
    alarm: Callable[[str, datetime], None] = field(default=lambda subject, due: None)
    signals: Signals = field(default_factory=Signals)
    quotas: QuotaCache = field(default_factory=QuotaCache)
    schema: SchemaSeen = field(default_factory=SchemaSeen)
    targets: Mapping[str, Target] = field(default_factory=dict)
    builder: Builder | None = None
    secrets: Secrets | None = None
    tokens: AttemptTokens = field(default_factory=AttemptTokens)
    url: str = ""
    caller: Principal = field(default_factory=Principal.owning)
    trace: str = ""

    def of(self, caller: Principal) -> Self:
        """For a request that changes nothing, or nothing that people answer for."""
        return replace(self, caller=caller)

    def changed_by(self, caller: Principal, action: str, trace: str = "") -> Self:
        """For a request; what it changes is kept in the audit log."""
        store = AuditedStore(self.store, caller.name, action, self.clock, trace)
        return replace(self, caller=caller, store=store, trace=trace)

    def announce(self, job: Job) -> None:
        """Wakes whoever waits for this job or its experiment."""
        self.signals.send(f"job/{job.id}")
        self.signals.send(f"experiment/{job.experiment_id}")


async def backoff(attempt: int) -> None:
    """Full jitter; real time, since it is between processes that race."""
    await asyncio.sleep(random.uniform(0, min(0.5, 0.005 * 2**attempt)))  # noqa: S311
