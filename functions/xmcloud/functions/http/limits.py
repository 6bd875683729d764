"""Refuses bodies that are too large before they fill the memory."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xmcloud.core.errors import TooLarge
from xmcloud.core.protocol import Problem
from xmcloud.functions.http.problems import problem_response

BODY_LIMIT = 32 * 1024 * 1024
"""Bytes of a request; Cloud Functions' own limit."""


class BodyLimit:
    """ASGI middleware; it trusts no Content-Length."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > BODY_LIMIT:
                raise TooLarge("The request", got, BODY_LIMIT)
            return message

        async def unless_refused(message: Message) -> None:
            if got <= BODY_LIMIT:
                await send(message)

        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > BODY_LIMIT:
            got = int(declared)
        else:
            await self._app(scope, counted, unless_refused)
        if got > BODY_LIMIT:
            refusal = Problem.of(TooLarge("The request", got, BODY_LIMIT))
            await problem_response(refusal)(scope, receive, send)
