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
from xmcloud.core.control.sweep import sweep as sweep_now
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
    await sweep_now(service().plane)


@functions_framework.aio.cloud_event
async def dispatch(event: CloudEvent) -> None:
    """A permit came to a queue's topic: the targets that it is for take what waits there."""
    plane, audience = service().plane, _message(event).get("attributes", {}).get("audience")
    if audience in plane.targets:
        await dispatch_now(plane, audience)


@functions_framework.aio.cloud_event
async def build_event(event: CloudEvent) -> None:
    """Cloud Build tells of a build."""
    await builds.build_event(service().plane, _body(event))


@functions_framework.aio.cloud_event
async def platform_event(event: CloudEvent) -> None:
    """A platform tells of a job."""
    await observing.platform_event(service().plane, _body(event))


def _message(event: CloudEvent) -> dict[str, Any]:
    """Of Pub/Sub, as its events carry it."""
    message: dict[str, Any] = event.data["message"]
    return message


def _body(event: CloudEvent) -> str:
    return base64.b64decode(_message(event).get("data", "")).decode()
