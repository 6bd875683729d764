"""Starts the entry point `api` as functions-framework does, asks for its health, and tells what
that took: a program for the deployed environment, which knows nothing of the tests."""

import asyncio
import json
import sys
from typing import Any

import functions_framework.aio


async def _health() -> dict[str, Any]:
    """The answer, with its status."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": "/v1/health",
        "query_string": b"",
        "headers": [],
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    app: Any = functions_framework.aio.create_asgi_app("api", "main.py")  # type: ignore[no-untyped-call]
    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return {"status": sent[0]["status"], "health": body.decode()}


told = asyncio.run(_health())
loaded = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
sys.stdout.write(json.dumps({**told, "loaded": loaded}))
