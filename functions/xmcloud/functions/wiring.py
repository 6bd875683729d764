"""Chooses the adapters; the only place of the control plane that knows them."""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from fastapi import FastAPI

from xmcloud.core.clock import SystemClock
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.errors import XmcloudError
from xmcloud.functions.http.app import create_app
from xmcloud.functions.http.auth import TokenFile
from xmcloud.functions.sweeper import Alarms


class Misconfigured(XmcloudError):
    """An environment variable of the control plane is missing or wrong."""

    slug, title, status = "misconfigured", "Wrong configuration", 500


@dataclass(frozen=True, slots=True)
class Service:
    """The control plane of this process, its alarms and its HTTP application."""

    plane: ControlPlane
    alarms: Alarms
    app: FastAPI


def _required(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise Misconfigured(f"The environment variable {name} is not set.", f"Set {name}.")
    return value


def _seconds(name: str, default: float) -> timedelta:
    value = os.environ.get(name, "")
    try:
        seconds = float(value) if value else default
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 3600:
        raise Misconfigured(f"{name} is {value!r}.", "It must be seconds, above 0 up to 3600.")
    return timedelta(seconds=seconds)


def build_service() -> Service:
    """The service that the environment describes.

    XMCLOUD_PROFILE: `embedded` (SQLite and files in XMCLOUD_HOME) or `gcp` (Firestore, Pub/Sub
    and the bucket XMCLOUD_BUCKET of GOOGLE_CLOUD_PROJECT). XMCLOUD_HOME also holds the token.
    XMCLOUD_LEASE_SECONDS is how long a silent worker keeps its jobs. Raises `Misconfigured`.
    """
    profile = os.environ.get("XMCLOUD_PROFILE", "embedded")
    home = Path(_required("XMCLOUD_HOME"))
    clock = SystemClock()
    alarms = Alarms(clock)
    lease = _seconds("XMCLOUD_LEASE_SECONDS", 30)
    match profile:
        case "embedded":
            plane = _embedded(home, clock, alarms, lease)
        case "gcp":
            plane = _gcp(clock, alarms, lease)
        case _:
            raise Misconfigured(f"XMCLOUD_PROFILE is {profile!r}.", "Use embedded or gcp.")
    return Service(plane, alarms, create_app(plane, TokenFile(home / "token")))


def _embedded(home: Path, clock: SystemClock, alarms: Alarms, lease: timedelta) -> ControlPlane:
    from xmcloud.adapters.files.blobs import FileBlobs
    from xmcloud.adapters.sqlite.queue import SqliteQueue
    from xmcloud.adapters.sqlite.store import SqliteStore

    return ControlPlane(
        store=SqliteStore(home / "store.db"),
        queue=SqliteQueue(home / "queue.db", clock),
        blobs=FileBlobs(home / "blobs"),
        clock=clock,
        lease=lease,
        heartbeat=lease / 3,
        look_again=timedelta(days=1),
        overlap=timedelta(milliseconds=200),
        alarm=alarms.set,
    )


def _gcp(clock: SystemClock, alarms: Alarms, lease: timedelta) -> ControlPlane:
    project, bucket = _required("GOOGLE_CLOUD_PROJECT"), _required("XMCLOUD_BUCKET")
    from xmcloud.adapters.gcp.firestore import FirestoreStore
    from xmcloud.adapters.gcp.pubsub import PubSubQueue
    from xmcloud.adapters.gcp.storage import GcsBlobs

    return ControlPlane(
        store=FirestoreStore(project),
        queue=PubSubQueue(project),
        blobs=GcsBlobs(bucket, project),
        clock=clock,
        lease=lease,
        heartbeat=lease / 3,
        alarm=alarms.set,
    )
