"""Chooses the adapters; the only place of the control plane that knows them."""

import os
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from fastapi import FastAPI

from xmcloud.core.attempt_tokens import AttemptTokens
from xmcloud.core.clock import SystemClock
from xmcloud.core.control.plane import ControlPlane, Target
from xmcloud.core.errors import XmcloudError
from xmcloud.core.platforms import Builder
from xmcloud.core.ports import Blobs
from xmcloud.functions.http.app import create_app
from xmcloud.functions.http.auth import TokenFile
from xmcloud.functions.sweeper import Alarms

_ON_CLOUD_RUN = "K_SERVICE"
"""Set in each container of Cloud Run, which runs functions too."""


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
    XMCLOUD_LEASE_SECONDS is how long a silent worker keeps its jobs. The targets and the builder
    are described by `_targets` and `_builder`; XMCLOUD_PUBLIC_URL is where what they run reaches
    the API. Raises `Misconfigured`.
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
    token = TokenFile(home / "token", mounted=_ON_CLOUD_RUN in os.environ)
    plane = replace(
        plane,
        targets=_targets(),
        builder=_builder(plane.blobs),
        tokens=AttemptTokens(token.secret),
        url=os.environ.get("XMCLOUD_PUBLIC_URL", ""),
    )
    return Service(plane, alarms, create_app(plane, token))


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


def _targets() -> dict[str, Target]:
    """The platforms that take jobs from the queues.

    `vertex`, with the regions XMCLOUD_VERTEX_LOCATIONS of GOOGLE_CLOUD_PROJECT; its jobs run as
    XMCLOUD_VERTEX_SERVICE_ACCOUNT in XMCLOUD_VERTEX_NETWORK unless they say otherwise.
    `kubernetes`, with XMCLOUD_KUBERNETES_NAMESPACE, reached as XMCLOUD_KUBECONFIG says (its
    context XMCLOUD_KUBERNETES_CONTEXT), else from inside the cluster. XMCLOUD_VERTEX_LIMIT and
    XMCLOUD_KUBERNETES_LIMIT are the jobs at a time of each, XMCLOUD_VERTEX_PER_MINUTE the
    submissions. XMCLOUD_VERTEX_ENDPOINT is a stand-in.
    """
    targets: dict[str, Target] = {}
    if locations := os.environ.get("XMCLOUD_VERTEX_LOCATIONS", ""):
        from xmcloud.adapters.gcp.vertex import VertexPlatform

        vertex = VertexPlatform(
            _required("GOOGLE_CLOUD_PROJECT"),
            [location.strip() for location in locations.split(",")],
            _required("XMCLOUD_BUCKET"),
            service_account=os.environ.get("XMCLOUD_VERTEX_SERVICE_ACCOUNT", ""),
            network=os.environ.get("XMCLOUD_VERTEX_NETWORK", ""),
            endpoint=os.environ.get("XMCLOUD_VERTEX_ENDPOINT", ""),
        )
        targets["vertex"] = Target(
            vertex,
            _count("XMCLOUD_VERTEX_LIMIT", 100),
            per_minute=_count("XMCLOUD_VERTEX_PER_MINUTE", 40),
        )
    if namespace := os.environ.get("XMCLOUD_KUBERNETES_NAMESPACE", ""):
        from xmcloud.adapters.kubernetes.connections import InCluster, Kubeconfig
        from xmcloud.adapters.kubernetes.platform import KubernetesPlatform

        context = os.environ.get("XMCLOUD_KUBERNETES_CONTEXT", "")
        file = os.environ.get("XMCLOUD_KUBECONFIG", "")
        connection = Kubeconfig(Path(file), context) if file else InCluster()
        kubernetes = KubernetesPlatform(namespace, connection)
        limit = _count("XMCLOUD_KUBERNETES_LIMIT", 100)
        targets["kubernetes"] = Target(kubernetes, limit, per_minute=600)
    return targets


def _builder(blobs: Blobs) -> Builder | None:
    """Cloud Build in the region XMCLOUD_BUILD_LOCATION (or `global`), if that is named.

    Images go to XMCLOUD_REGISTRY. XMCLOUD_BUILD_ENDPOINT is a stand-in.
    """
    location = os.environ.get("XMCLOUD_BUILD_LOCATION", "")
    if not location:
        return None
    from xmcloud.adapters.gcp.cloud_build import CloudBuildBuilder

    return CloudBuildBuilder(
        project=_required("GOOGLE_CLOUD_PROJECT"),
        location=location,
        bucket=_required("XMCLOUD_BUCKET"),
        registry=_required("XMCLOUD_REGISTRY"),
        blobs=blobs,
        endpoint=os.environ.get("XMCLOUD_BUILD_ENDPOINT", "") or None,
    )


def _count(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    if not value:
        return default
    if not value.isdecimal() or not 0 < int(value) <= 100_000:
        raise Misconfigured(f"{name} is {value!r}.", "It must be a number from 1 to 100000.")
    return int(value)
