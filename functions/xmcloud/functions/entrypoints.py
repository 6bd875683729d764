"""The entry points that functions-framework serves: `api` over HTTP, the others by event.

The framework has no ASGI mount, but awaits a Starlette response as an ASGI application; so the
answer to every request is the whole FastAPI application.
"""

import base64
from functools import cache
from typing import Any

import functions_framework.aio
from cloudevents.http import CloudEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from xmcloud.core.control import builds, observing
from xmcloud.core.control.dispatch import dispatch as dispatch_now
from xmcloud.core.control.migrating import require_known_schema
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.sweep import sweep as sweep_now
from xmcloud.functions.observability.requests import traced
from xmcloud.functions.wiring import Service, build_service


class _Mounted(Response):
    """A response that lets an ASGI application answer."""

    def __init__(self) -> None:
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await service().app(scope, receive, send)


@cache
def service() -> Service:
    """The one of this process, made on first use. Raises `XmcloudError`."""
    return build_service()


@functions_framework.aio.http
async def api(request: Request) -> Response:
    """The HTTP API."""
    return _Mounted()


@functions_framework.aio.cloud_event
async def sweep(event: CloudEvent) -> None:
    """Ends leases that ran out, publishes permits again, asks platforms about their jobs."""
    async with traced("sweep"):
        await sweep_now(await _plane())


@functions_framework.aio.cloud_event
async def dispatch(event: CloudEvent) -> None:
    """A permit came to a queue's topic: the targets that it is for take what waits there."""
    audience = _message(event).get("attributes", {}).get("audience")
    if audience in service().plane.targets:
        async with traced("dispatch"):
            await dispatch_now(await _plane(), audience)


@functions_framework.aio.cloud_event
async def build_event(event: CloudEvent) -> None:
    """Cloud Build tells of a build."""
    async with traced("build_event"):
        await builds.build_event(await _plane(), _body(event))


@functions_framework.aio.cloud_event
async def platform_event(event: CloudEvent) -> None:
    """A platform tells of a job."""
    async with traced("platform_event"):
        await observing.platform_event(await _plane(), _body(event))


async def _plane() -> ControlPlane:
    """Raises `NewerSchema`."""
    await require_known_schema(service().plane)
    return service().plane


def _message(event: CloudEvent) -> dict[str, Any]:
    """Of Pub/Sub, as its events carry it."""
    message: dict[str, Any] = event.data["message"]
    return message


def _body(event: CloudEvent) -> str:
    return base64.b64decode(_message(event).get("data", "")).decode()
