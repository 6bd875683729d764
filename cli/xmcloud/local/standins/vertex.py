"""Vertex AI's job service on this machine: the service's own requests, answers and refusals."""

import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import grpc
from google.cloud import aiplatform_v1 as vertex
from google.longrunning.operations_pb2 import Operation  # type: ignore[import-untyped]
from google.protobuf.empty_pb2 import Empty

from xmcloud.local.processes import LOOPBACK
from xmcloud.local.standins.containers import Runner
from xmcloud.local.standins.faults import Faults
from xmcloud.local.standins.vertex_jobs import TERMINAL, Emit, Jobs, state_of
from xmcloud.local.standins.vertex_rules import Invalid, check, matcher

_SERVICE = "google.cloud.aiplatform.v1.JobService"
_PARENT = re.compile(r"projects/([^/]+)/locations/([a-z0-9-]+)")
_NAME = re.compile(rf"{_PARENT.pattern}/customJobs/(\d+)")
_PAGE = 100
_Code = grpc.StatusCode
_Context = grpc.aio.ServicerContext[Any, Any]
_RequestT = TypeVar("_RequestT")


@asynccontextmanager
async def serve_vertex(
    port: int,
    project: str,
    locations: Sequence[str],
    gcs_root: Mapping[str, Path],
    logs: Path,
    emit: Emit,
    faults: Faults,
    runner: Runner,
) -> AsyncIterator[None]:
    """Serve on loopback. `gcs_root` has a folder for each bucket, which jobs see below /gcs;
    what they print goes to `logs`, and each change of state, as a log entry, to `emit`. What
    still runs at the end is stopped."""
    jobs = Jobs(project, runner, gcs_root, logs, emit, faults)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handlers(_JobService(project, locations, jobs, faults)),))
    server.add_insecure_port(f"{LOOPBACK}:{port}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(grace=None)
        await jobs.close()


class _JobService:
    def __init__(self, project: str, locations: Sequence[str], jobs: Jobs, faults: Faults) -> None:
        self._projects = (project, _number(project))
        self._locations = locations
        self._jobs = jobs
        self._faults = faults

    async def create(
        self, request: vertex.CreateCustomJobRequest, context: _Context
    ) -> vertex.CustomJob:
        await self._available(context)
        location = await self._location(request.parent, context)
        try:
            check(request.custom_job)
        except Invalid as error:
            await _abort(context, _Code.INVALID_ARGUMENT, str(error))
        await self._refused(context)
        made = self._jobs.create(self._projects[1], location, request.custom_job)
        if self._faults.take("fail_after"):
            await _abort(context, _Code.INTERNAL, "Internal error encountered.")
        return made

    async def get(self, request: vertex.GetCustomJobRequest, context: _Context) -> vertex.CustomJob:
        await self._available(context)
        _, job = await self._found(request.name, context)
        return job

    async def list(
        self, request: vertex.ListCustomJobsRequest, context: _Context
    ) -> vertex.ListCustomJobsResponse:
        await self._available(context)
        location = await self._location(request.parent, context)
        try:
            matches = matcher(request.filter)
        except Invalid as error:
            await _abort(context, _Code.INVALID_ARGUMENT, str(error))
        jobs = [job for job in self._jobs.newest_first(location) if matches(job)]
        names = [job.name for job in jobs]
        start = names.index(request.page_token) if request.page_token else 0
        end = start + (request.page_size or _PAGE)
        return vertex.ListCustomJobsResponse(
            custom_jobs=jobs[start:end], next_page_token=next(iter(names[end:]), "")
        )

    async def cancel(self, request: vertex.CancelCustomJobRequest, context: _Context) -> Empty:
        await self._available(context)
        id, job = await self._found(request.name, context)
        if state_of(job) in TERMINAL:
            await _abort(context, _Code.FAILED_PRECONDITION, f"{request.name} has ended.")
        self._jobs.cancel(id)
        return Empty()

    async def delete(self, request: vertex.DeleteCustomJobRequest, context: _Context) -> Operation:
        await self._available(context)
        id, job = await self._found(request.name, context)
        if state_of(job) not in TERMINAL:
            await _abort(context, _Code.FAILED_PRECONDITION, f"{request.name} still runs.")
        self._jobs.delete(id)
        operation = Operation(name=f"{request.name}/operations/1", done=True)
        operation.response.Pack(Empty())
        return operation

    async def _available(self, context: _Context) -> None:
        if self._faults.take("unavailable"):
            await _abort(context, _Code.UNAVAILABLE, "The service is currently unavailable.")

    async def _refused(self, context: _Context) -> None:
        if self._faults.take("quota"):
            metric = "aiplatform.googleapis.com/custom_model_training_cpus"
            text = f"The following quota metrics exceed quota limits: {metric}"
            await _abort(context, _Code.RESOURCE_EXHAUSTED, text)
        if self._faults.take("refuse"):
            await _abort(context, _Code.PERMISSION_DENIED, "Permission denied on the resource.")
        if self._faults.take("fail_before"):
            await _abort(context, _Code.INTERNAL, "Internal error encountered.")

    async def _location(self, parent: str, context: _Context) -> str:
        parts = _PARENT.fullmatch(parent)
        if parts is None or parts[2] not in self._locations:
            await _abort(context, _Code.INVALID_ARGUMENT, f"The parent {parent!r} is not served.")
        if parts[1] not in self._projects:
            await _abort(context, _Code.PERMISSION_DENIED, f"Permission denied on {parent}.")
        return parts[2]

    async def _found(self, name: str, context: _Context) -> tuple[str, vertex.CustomJob]:
        parts = _NAME.fullmatch(name)
        if parts is None:
            await _abort(context, _Code.INVALID_ARGUMENT, f"The name {name!r} is invalid.")
        await self._location(name.rpartition("/customJobs/")[0], context)
        job = self._jobs.get(parts[3])
        if job is None or f"/locations/{parts[2]}/" not in job.name:
            await _abort(context, _Code.NOT_FOUND, f"The CustomJob {name} does not exist.")
        return parts[3], job


async def _abort(context: _Context, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort raises")


def _number(project: str) -> str:
    """What the service puts into names, whatever the caller put there."""
    return str(10**11 + zlib.crc32(project.encode()))


def _handlers(service: _JobService) -> grpc.GenericRpcHandler:
    empty, operation = Empty.SerializeToString, Operation.SerializeToString
    job, jobs = vertex.CustomJob.serialize, vertex.ListCustomJobsResponse.serialize
    return grpc.method_handlers_generic_handler(
        _SERVICE,
        {
            "CreateCustomJob": _unary(service.create, vertex.CreateCustomJobRequest, job),
            "GetCustomJob": _unary(service.get, vertex.GetCustomJobRequest, job),
            "ListCustomJobs": _unary(service.list, vertex.ListCustomJobsRequest, jobs),
            "CancelCustomJob": _unary(service.cancel, vertex.CancelCustomJobRequest, empty),
            "DeleteCustomJob": _unary(service.delete, vertex.DeleteCustomJobRequest, operation),
        },
    )


def _unary(
    method: Callable[[_RequestT, _Context], Awaitable[Any]],
    request: Any,
    serializer: Callable[[Any], bytes],
) -> "grpc.RpcMethodHandler[Any, Any]":
    return grpc.unary_unary_rpc_method_handler(
        method, request_deserializer=request.deserialize, response_serializer=serializer
    )
