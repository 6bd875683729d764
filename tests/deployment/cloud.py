"""What surrounds the functions on Google Cloud: topics that push to them, and other services."""

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.infra.conftest import Applied
from tests.support.google_identity import Google, google_identity
from xmcloud.adapters.gcp.storage import GcsBlobs
from xmcloud.local.emulators import EmulatorAddresses
from xmcloud.local.processes import LOOPBACK, free_port
from xmcloud.local.standins.cloud_build import serve_cloud_build
from xmcloud.local.standins.containers import Processes
from xmcloud.local.standins.faults import Faults
from xmcloud.local.standins.vertex import serve_vertex

_MODE = "CUSTOM_PUBSUB_"
_NO_ENGINE = {"PATH": "", "DOCKER_HOST": "unix:///nowhere"}
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Push:
    """A subscription that pushes: its name, and where to."""

    subscription: str
    entry_point: str
    query: str

    @property
    def source(self) -> str:
        (mode,) = parse_qs(self.query)["__GCP_CloudEventsMode"]
        return f"//pubsub.googleapis.com/{mode.removeprefix(_MODE)}"

    def headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        """What that parameter of the address adds to a push of the message."""
        return {
            "Content-Type": "application/json",
            "ce-id": message["messageId"],
            "ce-source": self.source,
            "ce-specversion": "1.0",
            "ce-time": message["publishTime"],
            "ce-type": "google.cloud.pubsub.topic.v1.messagePublished",
        }

    def body(self, message: Mapping[str, Any]) -> dict[str, Any]:
        twice = {"message_id": message["messageId"], "publish_time": message["publishTime"]}
        return {"message": {**message, **twice}, "subscription": self.subscription}


@dataclass(slots=True)
class Cloud:
    """A project: its topics, who may call, and what Vertex AI and Cloud Build told of."""

    applied: Applied
    pubsub: httpx.AsyncClient
    variables: Mapping[str, str]
    google: Google
    pushes: list[Push]
    jobs: set[str] = field(default_factory=set)
    builds: set[str] = field(default_factory=set)

    def id_token(self) -> str:
        """Of the first admin, for the API."""
        admin, audience = (
            self.variables[name].split(",")[0] for name in ("XMCLOUD_ADMINS", "XMCLOUD_AUDIENCE")
        )
        return self.google.id_token(admin, audience)

    async def publish(self, topic: str, body: str) -> None:
        data = base64.b64encode(body.encode()).decode()
        await self._call(f"{self._topic(topic)}:publish", {"messages": [{"data": data}]})

    async def deliver(self, post: Callable[..., Any]) -> list[httpx.Response]:
        """Pushes all that waits, each message twice; answers of functions, in that order."""
        answers: list[httpx.Response] = []
        for push in self.pushes:
            asked = {"maxMessages": 100, "returnImmediately": True}
            pulled = (await self._call(f"{push.subscription}:pull", asked)).json()
            for received in pulled.get("receivedMessages", []):
                message = received["message"]
                headers, body = push.headers(message), push.body(message)
                answers += [await post(push, headers, body) for _ in range(2)]
                done = {"ackIds": [received["ackId"]]}
                await self._call(f"{push.subscription}:acknowledge", done)
        return answers

    async def tell_of_job(self, entry: str) -> None:
        self.jobs.add(json.loads(entry)["resource"]["labels"]["job_id"])
        await self.publish("xmcloud-platform-events", entry)

    async def tell_of_build(self, build: str) -> None:
        self.builds.add(json.loads(build)["id"])
        await self.publish("cloud-builds", build)

    async def make_topics(self) -> None:
        for each in self.applied.all("google_pubsub_topic"):
            await self._call(self._topic(each.values["name"]), _NONE, "PUT")
        for each in self.applied.all("google_pubsub_subscription"):
            name = self._path("subscriptions", each.values["name"])
            topic = self._topic(each.values["topic"].rpartition("/")[2])
            pushed = each.values["push_config"]
            if pushed:
                await self._call(name, {"topic": topic}, "PUT")
                url = urlsplit(pushed[0]["push_endpoint"])
                function = url.path or url.netloc
                self.pushes.append(Push(name, _entry_point(self.applied, function), url.query))

    def _topic(self, name: str) -> str:
        return self._path("topics", name)

    def _path(self, kind: str, name: str) -> str:
        return f"projects/{self.variables['GOOGLE_CLOUD_PROJECT']}/{kind}/{name}"

    async def _call(
        self, path: str, body: Mapping[str, Any], method: str = "POST"
    ) -> httpx.Response:
        return (await self.pubsub.request(method, path, json=body)).raise_for_status()


def _entry_point(applied: Applied, uri: str) -> str:
    functions = applied.all("google_cloudfunctions2_function")
    (found,) = [f for f in functions if f.values["service_config"][0]["uri"] == uri]
    return str(found.values["build_config"][0]["entry_point"])


def variables(applied: Applied) -> dict[str, str]:
    """Those that Terraform gives to every function, without a collector of traces."""
    function = applied.all("google_cloudfunctions2_function")[0]
    given = dict(function.values["service_config"][0]["environment_variables"])
    given.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
    return given


@asynccontextmanager
async def opened_cloud(
    applied: Applied, emulators: EmulatorAddresses, folder: Path
) -> AsyncIterator[Cloud]:
    """With the variables that every function has, and those that turn it to this machine."""
    given = variables(applied)
    project, bucket = given["GOOGLE_CLOUD_PROJECT"], given["XMCLOUD_BUCKET"]
    here = emulators.model_copy(update={"project": project}).environment()
    vertex, build = free_port(), free_port()
    here["XMCLOUD_VERTEX_ENDPOINT"] = f"{LOOPBACK}:{vertex}"
    here["XMCLOUD_BUILD_ENDPOINT"] = f"{LOOPBACK}:{build}"
    locations = given["XMCLOUD_VERTEX_LOCATIONS"].split(",")
    url = f"http://{emulators.pubsub}/v1/"
    async with AsyncExitStack() as stack:
        google = stack.enter_context(google_identity())
        here["XMCLOUD_GOOGLE_CERTS"] = google.certs
        client = httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)
        pubsub = await stack.enter_async_context(client)
        cloud = Cloud(applied, pubsub, given | here, google, [])
        await cloud.make_topics()
        logs, blobs = folder / "logs", {bucket: folder / "bucket"}
        told, faults = cloud.tell_of_job, Faults()
        store = GcsBlobs(bucket, project)
        stack.push_async_callback(store.close)
        platform = serve_vertex(vertex, project, locations, blobs, logs, told, faults, Processes())
        builder = serve_cloud_build(
            build,
            project,
            lambda _, key: store.get(key),
            lambda _, key, data: store.put(key, data),
            cloud.tell_of_build,
            environ=_NO_ENGINE,
        )
        for service in (platform, builder):
            await stack.enter_async_context(service)
        yield cloud
