"""A stand-in for Secret Manager, of its own types: secrets and versions in memory."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.cloud import secretmanager_v1 as api
from google.protobuf.empty_pb2 import Empty

Context = grpc.aio.ServicerContext[Any, Any]
State = api.SecretVersion.State
_SERVICE = "google.cloud.secretmanager.v1.SecretManagerService"
_VALUE_LIMIT = 64 * 1024


@dataclass
class Kept:
    """A secret, and its versions from the first on."""

    secret: api.Secret
    values: list[bytes] = field(default_factory=list)

    def version(self, number: int) -> api.SecretVersion:
        destroyed = not self.values[number - 1]
        return api.SecretVersion(
            name=f"{self.secret.name}/versions/{number}",
            state=State.DESTROYED if destroyed else State.ENABLED,
        )


class SecretManagerService:
    """Refuses as the service does; `failing` is what every call ends with instead."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.failing: grpc.StatusCode | None = None

    async def create(self, request: api.CreateSecretRequest, context: Context) -> api.Secret:
        name = f"{request.parent}/secrets/{request.secret_id}"
        if name in self.kept:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{name} is there")
        secret = api.Secret(request.secret)
        secret.name = name
        self.kept[name] = Kept(secret)
        return secret

    async def add(
        self, request: api.AddSecretVersionRequest, context: Context
    ) -> api.SecretVersion:
        kept = await self._found(request.parent, context)
        if len(request.payload.data) > _VALUE_LIMIT:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the payload is too large")
        kept.values.append(request.payload.data)
        return kept.version(len(kept.values))

    async def access(
        self, request: api.AccessSecretVersionRequest, context: Context
    ) -> api.AccessSecretVersionResponse:
        name, _, version = request.name.partition("/versions/")
        kept = await self._found(name, context)
        if not kept.values:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{name} has no versions")
        number = len(kept.values) if version == "latest" else int(version)
        value = kept.values[number - 1]
        if not value:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{request.name} is destroyed")
        payload = api.SecretPayload(data=value)
        return api.AccessSecretVersionResponse(name=kept.version(number).name, payload=payload)

    async def list(
        self, request: api.ListSecretVersionsRequest, context: Context
    ) -> api.ListSecretVersionsResponse:
        kept = await self._found(request.parent, context)
        versions = [kept.version(number) for number in range(len(kept.values), 0, -1)]
        if request.filter == "NOT state:DESTROYED":
            versions = [each for each in versions if each.state is not State.DESTROYED]
        return api.ListSecretVersionsResponse(versions=versions)

    async def destroy(
        self, request: api.DestroySecretVersionRequest, context: Context
    ) -> api.SecretVersion:
        name, _, version = request.name.partition("/versions/")
        kept = await self._found(name, context)
        kept.values[int(version) - 1] = b""
        return kept.version(int(version))

    async def delete(self, request: api.DeleteSecretRequest, context: Context) -> Empty:
        await self._found(request.name, context)
        del self.kept[request.name]
        return Empty()

    async def _found(self, name: str, context: Context) -> Kept:
        if self.failing is not None:
            await context.abort(self.failing, "it does not work today")
        if name not in self.kept:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{name} is not there")
        return self.kept[name]


@asynccontextmanager
async def secret_manager() -> AsyncIterator[tuple[str, SecretManagerService]]:
    """Serves on a free loopback port; HOST:PORT and what is behind it."""
    service = SecretManagerService()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handlers(service),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}", service
    finally:
        await server.stop(grace=None)


def _handlers(service: SecretManagerService) -> grpc.GenericRpcHandler:
    def unary(
        call: Callable[[Any, Context], Awaitable[Any]], request: Any, answer: Any
    ) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(
            call, request_deserializer=request.deserialize, response_serializer=answer
        )

    version = api.SecretVersion.serialize
    methods = {
        "CreateSecret": unary(service.create, api.CreateSecretRequest, api.Secret.serialize),
        "AddSecretVersion": unary(service.add, api.AddSecretVersionRequest, version),
        "AccessSecretVersion": unary(
            service.access,
            api.AccessSecretVersionRequest,
            api.AccessSecretVersionResponse.serialize,
        ),
        "ListSecretVersions": unary(
            service.list, api.ListSecretVersionsRequest, api.ListSecretVersionsResponse.serialize
        ),
        "DestroySecretVersion": unary(service.destroy, api.DestroySecretVersionRequest, version),
        "DeleteSecret": unary(service.delete, api.DeleteSecretRequest, Empty.SerializeToString),
    }
    return grpc.method_handlers_generic_handler(_SERVICE, methods)
