"""The calls that the stand-in for Cloud Build answers."""

import asyncio
import base64
import re
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import grpc
from google.cloud.devtools import cloudbuild_v1
from google.longrunning.operations_pb2 import Operation  # type: ignore[import-untyped]

from xmcloud.core.ports import Clock
from xmcloud.local.standins.cloud_build_requests import Invalid, check, wanted
from xmcloud.local.standins.cloud_build_runs import Emit, Run, Status, Write
from xmcloud.local.standins.cloud_build_steps import Read
from xmcloud.local.standins.faults import Counted, Faults

# Cloud Build names a project by its number in what it tells.
PROJECT_NUMBER = "100000000001"
_PARENT = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)")
_PAGE = 50
_DEFAULT_TIMEOUT, _DEFAULT_TTL = timedelta(hours=1), timedelta(hours=1)
_INTERNAL = "Internal error encountered."
_REFUSALS: tuple[tuple[Counted, grpc.StatusCode, str], ...] = (
    (
        "quota",
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "Quota exceeded for quota metric 'Build and Operation Create requests'",
    ),
    (
        "refuse",
        grpc.StatusCode.FAILED_PRECONDITION,
        "due to quota restrictions, cannot run builds in this region",
    ),
    ("fail_before", grpc.StatusCode.INTERNAL, _INTERNAL),
)
Context = grpc.aio.ServicerContext[Any, Any]


class CloudBuild:
    """The builds since it began; nothing is kept when it ends."""

    def __init__(
        self,
        project: str,
        read: Read,
        write: Write,
        emit: Emit,
        *,
        faults: Faults,
        clock: Clock,
        environ: Mapping[str, str],
        at_once: int,
    ) -> None:
        self._project = project
        self._connections: dict[str, Any] = {"read": read, "write": write, "emit": emit}
        self._faults = faults
        self._clock = clock
        self._environ = environ
        self._slots = asyncio.Semaphore(at_once)
        self._runs: dict[str, tuple[Run, asyncio.Task[None]]] = {}

    async def create(
        self, request: cloudbuild_v1.CreateBuildRequest, context: Context
    ) -> Operation:
        location = await self._location(request.parent, request.project_id, context)
        try:
            check(request.build)
        except Invalid as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        for fault, code, message in _REFUSALS:
            if self._faults.take(fault):
                await context.abort(code, message)
        run = self._start(request.build, location)
        if self._faults.take("fail_after"):
            await context.abort(grpc.StatusCode.INTERNAL, _INTERNAL)
        return _operation(run.build, self._project)

    async def get(
        self, request: cloudbuild_v1.GetBuildRequest, context: Context
    ) -> cloudbuild_v1.Build:
        run, _ = await self._found(request.name, request.project_id, request.id, context)
        return run.build

    async def list(
        self, request: cloudbuild_v1.ListBuildsRequest, context: Context
    ) -> cloudbuild_v1.ListBuildsResponse:
        """The newest first."""
        location = await self._location(request.parent, request.project_id, context)
        try:
            matches = wanted(request.filter)
            before = _decoded(request.page_token, self._runs)
        except Invalid as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        ids = list(reversed(self._runs))
        rest = ids[ids.index(before) + 1 :] if before else ids
        builds = [self._runs[id][0].build for id in rest]
        found = [b for b in builds if f"/locations/{location}/" in b.name and matches(b)]
        size = min(request.page_size or _PAGE, 1000)
        page = found[:size]
        more = _encoded(page[-1].id) if len(found) > size else ""
        return cloudbuild_v1.ListBuildsResponse(builds=page, next_page_token=more)

    async def cancel(
        self, request: cloudbuild_v1.CancelBuildRequest, context: Context
    ) -> cloudbuild_v1.Build:
        run, task = await self._found(request.name, request.project_id, request.id, context)
        if run.over:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, "cannot cancel a build that is not in progress"
            )
        run.cancel()
        await asyncio.wait({task})
        return run.build

    async def close(self) -> None:
        """Ends what still works, without a word."""
        tasks = [task for _, task in self._runs.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, asked: cloudbuild_v1.Build, location: str) -> Run:
        id = str(uuid.uuid4())
        build = cloudbuild_v1.Build(
            asked,
            id=id,
            project_id=self._project,
            name=f"projects/{PROJECT_NUMBER}/locations/{location}/builds/{id}",
            status=Status.QUEUED,
            create_time=self._clock.now(),
            timeout=asked.timeout if "timeout" in asked else _DEFAULT_TIMEOUT,
            queue_ttl=asked.queue_ttl if "queue_ttl" in asked else _DEFAULT_TTL,
            log_url="https://console.cloud.google.com/cloud-build/builds;"
            f"region={location}/{id}?project={PROJECT_NUMBER}",
        )
        run = Run(
            build,
            **self._connections,
            environ=self._environ,
            faults=self._faults,
            clock=self._clock,
        )
        self._runs[id] = run, asyncio.create_task(run.run(self._slots))
        return run

    async def _found(
        self, name: str, project: str, id: str, context: Context
    ) -> tuple[Run, asyncio.Task[None]]:
        parent, _, named = name.rpartition("/builds/")
        location = await self._location(parent, project, context)
        found = self._runs.get(named or id)
        if found is None or f"/locations/{location}/" not in found[0].build.name:
            await context.abort(grpc.StatusCode.NOT_FOUND, "Requested entity was not found.")
        return found

    async def _location(self, parent: str, project: str, context: Context) -> str:
        """Of the request, which every call has checked first."""
        if self._faults.take("unavailable"):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "The service is unavailable.")
        named = _PARENT.fullmatch(parent)
        if parent and named is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"invalid parent {parent!r}")
        projects = {project, *([named["project"]] if named else [])} - {""}
        if not projects <= {self._project, PROJECT_NUMBER}:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, "The caller does not have permission"
            )
        return named["location"] if named else "global"


def _operation(build: cloudbuild_v1.Build, project: str) -> Operation:
    metadata = cloudbuild_v1.BuildOperationMetadata(build=build)
    name = base64.urlsafe_b64encode(build.id.encode()).decode()
    operation = Operation(name=f"operations/build/{project}/{name}")
    operation.metadata.Pack(cloudbuild_v1.BuildOperationMetadata.pb(metadata))
    return operation


def _encoded(id: str) -> str:
    return base64.urlsafe_b64encode(id.encode()).decode()


def _decoded(token: str, known: Mapping[str, object]) -> str:
    try:
        id = base64.urlsafe_b64decode(token).decode()
    except ValueError:
        id = token
    if id and id not in known:
        raise Invalid(f"invalid page token {token!r}")
    return id
