"""Image builds on Cloud Build."""

import asyncio
import json
import re
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from google.api_core import exceptions

from xmcloud.adapters.gcp import build_results
from xmcloud.adapters.gcp.build_logs import TAIL_LINES, failed_step
from xmcloud.adapters.gcp.build_requests import LOGS, BuildRequests
from xmcloud.adapters.gcp.failures import TRANSIENT, translated
from xmcloud.core.builds import Build
from xmcloud.core.errors import NotFound
from xmcloud.core.platforms import BuilderJob, BuilderState, PlatformRefused, QuotaExceeded
from xmcloud.core.ports import Blobs

if TYPE_CHECKING:
    from google.cloud.devtools import cloudbuild_v1
    from google.cloud.devtools.cloudbuild_v1.services.cloud_build import CloudBuildAsyncClient

_SERVICE = "Cloud Build"
_NAME = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/builds/(?P<id>[^/]+)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LOG_END = 16 * 1024
_UNHAPPY = (BuilderState.FAILED, BuilderState.TIMED_OUT, BuilderState.BROKEN)


class CloudBuildBuilder:
    """The `Builder` port on Cloud Build.

    Archives and logs lie in the bucket that `blobs` reads. An image is pushed to
    REGISTRY/NAME:BUILD, and its layers are cached beside it. Builds run as `service_account`, an
    address, or as the project's default one. `endpoint`, as HOST:PORT, is a server that speaks
    without encryption; otherwise Google's own is asked.
    """

    def __init__(
        self,
        *,
        project: str,
        location: str,
        bucket: str,
        registry: str,
        blobs: Blobs,
        service_account: str = "",
        endpoint: str | None = None,
        deadline: float = 30.0,
    ) -> None:
        self._project = project
        self._location = location
        self._blobs = blobs
        self._endpoint = endpoint
        self._client: CloudBuildAsyncClient | None = None
        account = f"projects/{project}/serviceAccounts/{service_account}" if service_account else ""
        self._requests = BuildRequests(bucket, registry, account)
        self._once: dict[str, Any] = {"retry": None, "timeout": deadline}
        self._deadline = deadline

    async def submit(self, build: Build) -> BuilderJob:
        request = {
            "parent": self._parent,
            "project_id": self._project,
            "build": self._requests.build(build),
        }
        try:
            with translated(_SERVICE):
                operation = await self._create(request)
        except exceptions.ClientError as error:
            raise PlatformRefused(
                f"Cloud Build refused build {build.id}: {error.message}",
                "Correct what it names and ask for the build again.",
            ) from error
        return await self._job(operation.metadata.build)

    async def find(self, build: Build) -> BuilderJob | None:
        request = {
            "parent": self._parent,
            "project_id": self._project,
            "filter": f'tags="{build.tag}"',
        }
        oldest = None
        with translated(_SERVICE):
            pager = await (await self._api()).list_builds(request, **self._again)
            async for remote in pager:
                oldest = remote  # they come the newest first
        return None if oldest is None else await self._job(oldest)

    async def get(self, name: str) -> BuilderJob | None:
        named = _NAME.fullmatch(name)
        if named is None:
            return None
        try:
            with translated(_SERVICE):
                remote = await (await self._api()).get_build(self._identity(named), **self._again)
        except exceptions.NotFound:
            return None
        return await self._job(remote)

    async def cancel(self, name: str) -> None:
        named = _NAME.fullmatch(name)
        if named is None:
            return
        try:
            with translated(_SERVICE):
                await (await self._api()).cancel_build(self._identity(named), **self._again)
        except (exceptions.NotFound, exceptions.FailedPrecondition):
            return

    def event(self, body: str) -> str | None:
        try:
            told = json.loads(body)
        except ValueError:
            return None
        match told:
            case {"id": str(id), "projectId": self._project, "tags": [*tags]} if _ours(tags):
                return self._name(id, str(told.get("name", "")))
        return None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.transport.close()

    @cached_property
    def _again(self) -> dict[str, Any]:
        from google.api_core.retry import AsyncRetry, if_exception_type

        retry = AsyncRetry(
            predicate=if_exception_type(exceptions.Aborted, *TRANSIENT),
            initial=0.1,
            maximum=2.0,
            multiplier=2.0,
            timeout=self._deadline,
        )
        return {"retry": retry, "timeout": self._deadline}

    @property
    def _parent(self) -> str:
        return f"projects/{self._project}/locations/{self._location}"

    async def _api(self) -> "CloudBuildAsyncClient":
        if self._client is None:
            # It takes a while to load; whoever else is served meanwhile does not wait for that.
            await asyncio.to_thread(import_module, "google.cloud.devtools.cloudbuild_v1")
            self._client = self._client or self._connected()
        return self._client

    def _connected(self) -> "CloudBuildAsyncClient":
        from google.cloud.devtools.cloudbuild_v1.services.cloud_build import (
            CloudBuildAsyncClient,
            transports,
        )

        if self._endpoint is None:
            return CloudBuildAsyncClient()
        import grpc

        channel = grpc.aio.insecure_channel(self._endpoint)
        return CloudBuildAsyncClient(
            transport=transports.CloudBuildGrpcAsyncIOTransport(channel=channel)
        )

    async def _create(self, request: dict[str, Any]) -> Any:
        try:
            return await (await self._api()).create_build(request, **self._once)
        except exceptions.TooManyRequests as error:  # RESOURCE_EXHAUSTED
            raise QuotaExceeded(
                f"Cloud Build takes no more builds now: {error.message}",
                "Wait, or raise the quota.",
            ) from error

    def _identity(self, named: re.Match[str]) -> dict[str, str]:
        return {"name": named[0], "project_id": self._project, "id": named["id"]}

    def _name(self, id: str, told: str) -> str:
        """With the project's id, where Cloud Build tells the project's number."""
        named = _NAME.fullmatch(told)
        location = named["location"] if named else self._location
        return f"projects/{self._project}/locations/{location}/builds/{id}"

    async def _job(self, remote: "cloudbuild_v1.Build") -> BuilderJob:
        state = build_results.state(remote)
        tail = await self._log_end(remote.id) if state in _UNHAPPY else ""
        image, message = "", remote.status_detail or remote.failure_info.detail
        if state is BuilderState.SUCCEEDED:
            image = build_results.pushed(remote)
            if not image:
                state, message = BuilderState.BROKEN, "It succeeded, but told no image's digest."
        return BuilderJob(
            name=self._name(remote.id, remote.name),
            state=state,
            image=image,
            step=build_results.where(remote) or failed_step(tail),
            message=message,
            tail="\n".join(tail.splitlines()[-TAIL_LINES:]),
            url=remote.log_url,
        )

    async def _log_end(self, id: str) -> str:
        key = f"{LOGS}/log-{id}.txt"
        sizes = dict(await self._blobs.list(key))
        if key not in sizes:
            return ""
        try:
            end = await self._blobs.get(key, max(0, sizes[key] - _LOG_END))
        except NotFound:
            return ""
        return _COLOUR.sub("", end.decode(errors="replace"))


def _ours(tags: list[Any]) -> bool:
    return any(isinstance(tag, str) and tag.startswith("xmcloud-") for tag in tags)
