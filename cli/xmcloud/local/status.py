"""What runs on this machine."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import psutil

from xmcloud.core.base import Model, Time
from xmcloud.core.errors import XmcloudError
from xmcloud.core.protocol import QueueStatus
from xmcloud.local.control import CONTROL_PLANE, WORKER, LocalPlane
from xmcloud.local.processes import ProcessRecord, alive, members
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.places import address, named_elsewhere


class Part(Model):
    """A process that `up` started."""

    name: str
    state: Literal["running", "dead"]
    pid: int
    url: str | None = None
    started_at: Time
    memory_bytes: int
    log: Path


class Status(Model):
    """The control plane that commands talk to, and the processes of this machine."""

    home: Path
    url: str | None
    version: str | None
    problem: str = ""
    parts: list[Part]
    queues: list[QueueStatus] = []


def look(plane: LocalPlane) -> Status:
    """Raises DamagedRecords."""
    control = plane.home.control()
    urls = _urls(plane)
    parts = [_part(record, urls.get(record.name)) for record in plane.processes.records()]
    url = named_elsewhere() or (control.url if control else None)
    found = Status(home=plane.home.path, url=url, version=None, parts=parts)
    if url is None:
        return found
    try:
        place = address({**os.environ, "XMCLOUD_HOME": str(plane.home.path)})
        with Client(place.url, place.credentials) as client:
            health = client.health()
            return found.evolve(version=health.version, queues=client.queues())
    except XmcloudError as error:
        return found.evolve(problem=str(error))


def _urls(plane: LocalPlane) -> dict[str, str]:
    control, emulators = plane.home.control(), plane.home.emulators()
    urls = {CONTROL_PLANE: control.url} if control else {}
    if emulators is not None:
        for name in ("firestore", "pubsub", "storage"):
            urls[name] = f"http://{getattr(emulators, name)}"
    return urls


def _part(record: ProcessRecord, url: str | None) -> Part:
    lives = alive(record)
    return Part(
        name=record.name,
        state="running" if lives else "dead",
        pid=record.pid,
        url=url,
        started_at=datetime.fromtimestamp(record.create_time, UTC),
        memory_bytes=_memory(record) if lives else 0,
        log=record.log,
    )


def _memory(record: ProcessRecord) -> int:
    """Resident bytes; a worker's without those of its jobs."""
    processes = [psutil.Process(record.pid)] if record.name == WORKER else members(record)
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.Error:  # it ended meanwhile, or belongs to somebody else
            continue
    return total
