"""Custom jobs of Vertex AI."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import grpc
from google.api_core import exceptions
from pydantic import BaseModel, ValidationError

from xmcloud.adapters.gcp.failures import TRANSIENT, translated
from xmcloud.core.errors import InvalidInput, Unavailable
from xmcloud.core.machines import check_vertex_group, vertex_options, vertex_tensorboard
from xmcloud.core.models import Job
from xmcloud.core.platforms import Launch, Platform, PlatformJob, PlatformRefused, QuotaExceeded

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1 import CustomJob, JobServiceAsyncClient

_SERVICE = "Vertex AI"
_NAME = re.compile(r"projects/[^/]+/locations/([a-z0-9-]+)/customJobs/\d+")
_UNDECIDED = (
    *TRANSIENT,
    exceptions.Aborted,
    exceptions.Cancelled,
    exceptions.RetryError,
    exceptions.Unauthenticated,
)


class VertexPlatform(Platform):
    """The `Platform` port on Vertex AI.

    Jobs run in one of the `locations`, the first unless they say otherwise; a label is looked for
    in all of them. `service_account` and `network` are those of jobs that name none; outputs and
    checkpoints go to the bucket. `endpoint` is the host:port of a stand-in.
    """

    def __init__(
        self,
        project: str,
        locations: Sequence[str],
        bucket: str,
        *,
        service_account: str = "",
        network: str = "",
        endpoint: str = "",
        deadline: float = 20.0,
    ) -> None:
        self._project = project
        self._locations = tuple(locations)
        self._bucket = bucket
        self._service_account = service_account
        self._network = network
        self._endpoint = endpoint
        self._once: dict[str, Any] = {"retry": None, "timeout": deadline}
        self._deadline = deadline
        self._clients: dict[str, JobServiceAsyncClient] = {}

    def check(self, jobs: Sequence[Job]) -> None:
        check_vertex_group(jobs)
        options = vertex_options(jobs[0])
        if options.location and options.location not in self._locations:
            raise InvalidInput(
                "platform.location", options.location, f"one of {', '.join(self._locations)}"
            )
        if vertex_tensorboard(jobs) and not (options.service_account or self._service_account):
            raise InvalidInput(
                "platform.service_account", "", "set: a TensorBoard is written in its name"
            )

    async def submit(self, launch: Launch) -> PlatformJob:
        from xmcloud.adapters.gcp.vertex_spec import custom_job

        location = vertex_options(launch.jobs[0]).location or self._locations[0]
        job = custom_job(launch, self._bucket, self._service_account, self._network)
        parent = f"projects/{self._project}/locations/{location}"
        with _submission():
            made = await (await self._client(location)).create_custom_job(
                parent=parent, custom_job=job, **self._once
            )
        return self._told(made)

    async def find(self, label: str) -> list[PlatformJob]:
        found = await asyncio.gather(*(self._list(label, place) for place in self._locations))
        jobs = [job for jobs in found for job in jobs]
        return [self._told(job) for job in sorted(jobs, key=_age)]

    async def get(self, name: str) -> PlatformJob | None:
        location = _location(name)
        if location is None:
            return None
        with translated(_SERVICE):
            try:
                job = await (await self._client(location)).get_custom_job(name=name, **self._again)
            except exceptions.NotFound:
                return None
        return self._told(job)

    async def cancel(self, name: str) -> None:
        location = _location(name)
        if location is None:
            return
        with translated(_SERVICE), suppress(exceptions.NotFound, exceptions.FailedPrecondition):
            await (await self._client(location)).cancel_custom_job(name=name, **self._again)

    def event(self, body: str) -> str | None:
        """Of a log entry that Cloud Logging routed here. Only entries of a machine tell where it
        is; the others are of a job in the first location."""
        try:
            entry = _LogEntry.model_validate_json(body)
        except ValidationError:
            return None
        zone = entry.labels.get("compute.googleapis.com/zone", "")
        location = zone.rpartition("-")[0] or self._locations[0]
        return self._name(location, entry.resource.labels.job_id)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.transport.close()

    @cached_property
    def _again(self) -> dict[str, Any]:
        from google.api_core.retry import AsyncRetry, if_exception_type

        predicate = if_exception_type(exceptions.Aborted, *TRANSIENT)
        retry = AsyncRetry(predicate, initial=0.1, maximum=2.0, timeout=self._deadline)
        return {"retry": retry, "timeout": self._deadline}

    async def _list(self, label: str, location: str) -> "list[CustomJob]":
        from xmcloud.adapters.gcp.vertex_spec import LABEL

        request = {
            "parent": f"projects/{self._project}/locations/{location}",
            "filter": f'labels.{LABEL}="{label}"',
        }
        with translated(_SERVICE):
            pages = await (await self._client(location)).list_custom_jobs(
                request=request, **self._again
            )
            return [job async for job in pages]

    def _told(self, job: "CustomJob") -> PlatformJob:
        from xmcloud.adapters.gcp.vertex_state import platform_job

        _, _, _, location, _, id = job.name.split("/")
        return platform_job(job, self._name(location, id), self._project)

    def _name(self, location: str, id: str) -> str:
        return f"projects/{self._project}/locations/{location}/customJobs/{id}"

    async def _client(self, location: str) -> "JobServiceAsyncClient":
        if location not in self._clients:
            # It takes seconds to load; whoever else is served meanwhile does not wait for that.
            await asyncio.to_thread(import_module, "google.cloud.aiplatform_v1")
            self._clients.setdefault(location, self._connected(location))
        return self._clients[location]

    def _connected(self, location: str) -> "JobServiceAsyncClient":
        from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
        from google.cloud.aiplatform_v1.services.job_service.transports.grpc_asyncio import (
            JobServiceGrpcAsyncIOTransport,
        )

        if not self._endpoint:
            from google.api_core.client_options import ClientOptions

            host = f"{location}-aiplatform.googleapis.com"
            return JobServiceAsyncClient(client_options=ClientOptions(api_endpoint=host))
        channel = grpc.aio.insecure_channel(self._endpoint)
        return JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))


class _ResourceLabels(BaseModel):
    job_id: str


class _Resource(BaseModel):
    type: Literal["ml_job"]
    labels: _ResourceLabels


class _LogEntry(BaseModel):
    """What is read of it; a field that is missing or another makes it an event of no job."""

    resource: _Resource
    labels: dict[str, str] = {}


def _location(name: str) -> str | None:
    """None of what is no name of a custom job."""
    parts = _NAME.fullmatch(name)
    return parts and parts[1]


def _age(job: "CustomJob") -> tuple[Any, str]:
    return job.create_time, job.name


@contextmanager
def _submission() -> Iterator[None]:
    """Tells a refusal for now from one for good, and both from what may have taken effect."""
    try:
        yield
    except exceptions.TooManyRequests as error:
        raise QuotaExceeded(f"{_SERVICE} has no quota: {error.message}", "Ask for more.") from error
    except _UNDECIDED as error:
        raise Unavailable(f"{_SERVICE} does not answer: {error}.", "Try again later.") from error
    except exceptions.ClientError as error:
        raise PlatformRefused(
            f"{_SERVICE} refused the job: {error.message}", "Change its definition."
        ) from error
