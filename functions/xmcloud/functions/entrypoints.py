"""The entry points that functions-framework serves: `api` over HTTP and `sweep` by event.

The framework has no ASGI mount, but awaits a Starlette response as an ASGI application; so the
answer to every request is the whole FastAPI application.
"""

from functools import cache

import functions_framework.aio
from cloudevents.http import CloudEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

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
    """Ends leases that ran out and publishes permits again."""
    await sweep_now(service().plane)
