"""Chooses the adapters; the only place of the control plane that knows them."""

import os
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from fastapi import FastAPI

from xmcloud.adapters.late import late
from xmcloud.adapters.otel import chosen_tracer
from xmcloud.core.attempt_tokens import AttemptTokens
from xmcloud.core.clock import SystemClock
from xmcloud.core.control.plane import ControlPlane, Target
from xmcloud.core.errors import XmcloudError
from xmcloud.core.platforms import Builder
from xmcloud.core.ports import Blobs, Queue, Store
from xmcloud.core.secrets import Secrets
from xmcloud.core.trace import use
from xmcloud.functions.http.app import create_app
from xmcloud.functions.http.auth import ApiTokens, Authenticator, IdTokens, SignedIn, TokenFile
from xmcloud.functions.http.rates import Rate, Rates
from xmcloud.functions.sweeper import Alarms

SERVICE = "xmcloud-api"
"""What it is called in traces and in reports of errors."""

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
    use(chosen_tracer(os.environ, SERVICE))
    profile = os.environ.get("XMCLOUD_PROFILE", "embedded")
    home = Path(_required("XMCLOUD_HOME"))
    clock = SystemClock()
    alarms = Alarms(clock)
    lease = _seconds("XMCLOUD_LEASE_SECONDS", 30)
    match profile:
        case "embedded":
            plane = _embedded(home, clock, alarms, lease)
        case "gcp":
            plane = _gcp(home, clock, alarms, lease)
        case _:
            raise Misconfigured(f"XMCLOUD_PROFILE is {profile!r}.", "Use embedded or gcp.")
    token = TokenFile(home / "token", mounted=_ON_CLOUD_RUN in os.environ)
    authenticators = _authenticators(token)
    plane = replace(
        plane,
        targets=_targets(),
        builder=_builder(plane.blobs),
        tokens=AttemptTokens(token.secret),
        url=os.environ.get("XMCLOUD_PUBLIC_URL", ""),
    )
    return Service(plane, alarms, create_app(plane, authenticators, _rates()))


def _rates() -> Rates:
    """XMCLOUD_RATE_LIMIT: requests a second of one caller, and at once (50/500), or `off`."""
    on_cloud_run = _ON_CLOUD_RUN in os.environ
    value = os.environ.get("XMCLOUD_RATE_LIMIT", "")
    if value == "off":
        return Rates(None)
    per_second, _, burst = value.partition("/")
    if not value:
        return Rates(proxied=on_cloud_run)
    if not (_is_count(per_second) and _is_count(burst)):
        expected = "It must be as 50/500 (a second, and at once), or off."
        raise Misconfigured(f"XMCLOUD_RATE_LIMIT is {value!r}.", expected)
    return Rates(Rate(int(per_second), int(burst)), proxied=on_cloud_run)


def _authenticators(token: TokenFile) -> list[Authenticator]:
    """Who is believed: API tokens, and what XMCLOUD_IDENTITY says.

    `token`: the control plane's own token, whose bearer may do everything. `google`: ID tokens
    of Google for one of the addresses XMCLOUD_AUDIENCE; XMCLOUD_ADMINS are admins everywhere.
    XMCLOUD_GOOGLE_CERTS is a stand-in for Google's certificates.
    """
    identity = os.environ.get("XMCLOUD_IDENTITY", "token")
    match identity:
        case "token":
            return [token, ApiTokens()]
        case "google":
            audiences = _listed(_required("XMCLOUD_AUDIENCE"))

            def tokens() -> IdTokens:
                from xmcloud.adapters.gcp.identity import CERTS, Certificates, GoogleIdTokens

                certificates = Certificates(os.environ.get("XMCLOUD_GOOGLE_CERTS", "") or CERTS)
                return GoogleIdTokens(certificates, audiences)

            admins = _listed(os.environ.get("XMCLOUD_ADMINS", ""))
            return [ApiTokens(), SignedIn(late(tokens), admins)]
        case _:
            raise Misconfigured(f"XMCLOUD_IDENTITY is {identity!r}.", "Use token or google.")


def _listed(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def _embedded(home: Path, clock: SystemClock, alarms: Alarms, lease: timedelta) -> ControlPlane:
    from xmcloud.adapters.files.blobs import FileBlobs
    from xmcloud.adapters.files.secrets import FileSecrets
    from xmcloud.adapters.sqlite.queue import SqliteQueue
    from xmcloud.adapters.sqlite.store import SqliteStore

    return ControlPlane(
        store=SqliteStore(home / "store.db"),
        queue=SqliteQueue(home / "queue.db", clock),
        blobs=FileBlobs(home / "blobs"),
        secrets=FileSecrets(home),
        clock=clock,
        lease=lease,
        heartbeat=lease / 3,
        look_again=timedelta(days=1),
        overlap=timedelta(milliseconds=200),
        alarm=alarms.set,
    )


def _gcp(home: Path, clock: SystemClock, alarms: Alarms, lease: timedelta) -> ControlPlane:
    """Secrets are in Secret Manager, or in files beside an emulated Firestore.

    There is no emulator of Secret Manager; XMCLOUD_SECRETS_ENDPOINT is a stand-in.
    XMCLOUD_KMS_KEY encrypts secrets: projects/P/locations/L/keyRings/R/cryptoKeys/K.
    """
    project, bucket = _required("GOOGLE_CLOUD_PROJECT"), _required("XMCLOUD_BUCKET")

    def store() -> Store:
        from xmcloud.adapters.gcp.firestore import FirestoreStore

        return FirestoreStore(project)

    def queue() -> Queue:
        from xmcloud.adapters.gcp.pubsub import PubSubQueue

        return PubSubQueue(project)

    def blobs() -> Blobs:
        from xmcloud.adapters.gcp.storage import GcsBlobs

        return GcsBlobs(bucket, project)

    def secrets() -> Secrets:
        endpoint = os.environ.get("XMCLOUD_SECRETS_ENDPOINT", "")
        if not endpoint and "FIRESTORE_EMULATOR_HOST" in os.environ:
            from xmcloud.adapters.files.secrets import FileSecrets

            return FileSecrets(home)
        from xmcloud.adapters.gcp.secrets import SecretManager

        key = os.environ.get("XMCLOUD_KMS_KEY", "")
        return SecretManager(project, endpoint, kms_key=key)

    return ControlPlane(
        store=late(store),
        queue=late(queue),
        blobs=late(blobs),
        secrets=late(secrets),
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

    Images go to XMCLOUD_REGISTRY; builds run as XMCLOUD_BUILD_SERVICE_ACCOUNT, else as the
    project's default account. XMCLOUD_BUILD_ENDPOINT is a stand-in.
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
        service_account=os.environ.get("XMCLOUD_BUILD_SERVICE_ACCOUNT", ""),
        endpoint=os.environ.get("XMCLOUD_BUILD_ENDPOINT", "") or None,
    )


def _count(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    if not value:
        return default
    if not _is_count(value):
        raise Misconfigured(f"{name} is {value!r}.", "It must be a number from 1 to 100000.")
    return int(value)


def _is_count(value: str) -> bool:
    return value.isdecimal() and 0 < int(value) <= 100_000
