"""A stand-in for Cloud Build: its own API, with builds on the Docker Engine of this machine."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.cloud.devtools import cloudbuild_v1
from google.longrunning.operations_pb2 import Operation  # type: ignore[import-untyped]

from xmcloud.core.clock import SystemClock
from xmcloud.core.ports import Clock
from xmcloud.local.processes import LOOPBACK
from xmcloud.local.standins.cloud_build_runs import Emit, Write
from xmcloud.local.standins.cloud_build_service import CloudBuild, Context
from xmcloud.local.standins.cloud_build_steps import Read
from xmcloud.local.standins.faults import Faults

_SERVICE = "google.devtools.cloudbuild.v1.CloudBuild"


@asynccontextmanager
async def serve_cloud_build(
    port: int,
    project: str,
    read: Read,
    write: Write,
    emit: Emit,
    *,
    faults: Faults | None = None,
    clock: Clock | None = None,
    environ: Mapping[str, str] = os.environ,
    at_once: int = 4,
) -> AsyncIterator[str]:
    """Serves on a loopback port, 0 for a free one; yields HOST:PORT.

    `read(bucket, object)` fetches a source and raises `NotFound`; `write(bucket, object, bytes)`
    keeps a log; `emit(body)` is told the JSON of a build whenever its status changes. `environ`
    is the docker program's; `at_once` builds work at a time.
    """
    service = CloudBuild(
        project,
        read,
        write,
        emit,
        faults=faults or Faults(),
        clock=clock or SystemClock(),
        environ=environ,
        at_once=at_once,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handlers(service),))
    bound = server.add_insecure_port(f"{LOOPBACK}:{port}")
    await server.start()
    try:
        yield f"{LOOPBACK}:{bound}"
    finally:
        await service.close()
        await server.stop(grace=None)


def _handlers(service: CloudBuild) -> grpc.GenericRpcHandler:
    def unary(
        call: Callable[[Any, Context], Awaitable[Any]], request: Any, answer: Any
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(
            call, request_deserializer=request.deserialize, response_serializer=answer
        )

    build = cloudbuild_v1.Build.serialize
    listed = cloudbuild_v1.ListBuildsResponse.serialize
    methods = {
        "CreateBuild": unary(
            service.create, cloudbuild_v1.CreateBuildRequest, Operation.SerializeToString
        ),
        "GetBuild": unary(service.get, cloudbuild_v1.GetBuildRequest, build),
        "ListBuilds": unary(service.list, cloudbuild_v1.ListBuildsRequest, listed),
        "CancelBuild": unary(service.cancel, cloudbuild_v1.CancelBuildRequest, build),
    }
    return grpc.method_handlers_generic_handler(_SERVICE, methods)
