"""A control plane that dies where it is told to.

`python -m tests.faults.server` imports everything once, listens, and then forks a server for each
line of its input (an `Order`). It answers with a line when the server runs and one when it ended.
Connections made while no server runs wait for the next one.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, cast

import httpx
import uvicorn
from fastapi import FastAPI

from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.ports import Delivery, Message, Queue, Subscription
from xmcloud.functions import wiring
from xmcloud.functions.http.app import create_app
from xmcloud.functions.http.auth import TokenFile
from xmcloud.functions.sweeper import run_sweeper

SOURCES = Path(wiring.__file__).parents[1]
TRACED = tuple(f"{SOURCES / part}/" for part in ("core", "functions", "adapters"))


@dataclass(frozen=True)
class Order:
    """One server: its variables, the line of ours that it dies before (0: none), and whether
    every message is sent twice and comes in an order that `shuffled` seeds."""

    environ: dict[str, str]
    dies_at: int = 0
    shuffled: int | None = None

    def line(self) -> str:
        return json.dumps(asdict(self))


class Lines:
    """Counts the lines of the product that are about to run, and kills the process at one."""

    def __init__(self, dies_at: int) -> None:
        self.count = 0
        self._dies_at = dies_at
        self._ours: dict[str, bool] = {}

    def watch(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        name = frame.f_code.co_filename
        ours = self._ours.get(name)
        if ours is None:
            ours = self._ours[name] = name.startswith(TRACED)
        return self._line if ours else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self._dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._line


class ShuffledQueue:
    """A `Queue` that sends everything twice and delivers in any order."""

    def __init__(self, queue: Queue, seed: int) -> None:
        self._queue, self._random = queue, Random(seed)

    async def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        await self._queue.subscribe(subscriptions)

    async def unsubscribe(self, subscriptions: Sequence[Subscription]) -> None:
        await self._queue.unsubscribe(subscriptions)

    async def publish(self, topic: str, messages: Sequence[Message]) -> None:
        twice = [*messages, *messages]
        self._random.shuffle(twice)
        await self._queue.publish(topic, twice)

    async def pull(
        self, subscriptions: Sequence[Subscription], limit: int, wait: float
    ) -> list[Delivery]:
        found = await self._queue.pull(subscriptions, 50, wait)
        self._random.shuffle(found)
        await self._queue.release(found[limit:], 0)
        return found[:limit]

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        await self._queue.acknowledge(deliveries)

    async def release(self, deliveries: Sequence[Delivery], delay: float) -> None:
        await self._queue.release(deliveries, delay)

    async def close(self) -> None:
        await self._queue.close()


async def warm_application() -> FastAPI:
    """The API with every route built, so that a server begins to answer at once."""
    app = create_app(cast(ControlPlane, None), ())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as http:
        for path, methods in app.openapi()["paths"].items():
            for method in methods:
                await http.request(method, path)
    return app


async def serve(order: Order, app: FastAPI, listener: socket.socket) -> None:
    config = uvicorn.Config(
        app, loop="asyncio", lifespan="off", log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    # A server that is not up yet ends at once; at its end, uvicorn raises the signal again.
    signal.signal(signal.SIGTERM, lambda *_: None if server.should_exit else os._exit(0))
    service = wiring.build_service()
    plane = service.plane
    if order.shuffled is not None:
        plane = replace(plane, queue=ShuffledQueue(plane.queue, order.shuffled))
    app.state.plane = plane
    app.state.authenticators = [TokenFile(Path(os.environ["XMCLOUD_HOME"]) / "token")]
    async with asyncio.TaskGroup() as tasks:
        sweeper = tasks.create_task(run_sweeper(plane, service.alarms))
        await server.serve([listener])
        sweeper.cancel()
    await plane.queue.close()
    await plane.store.close()


def run(order: Order, app: FastAPI, listener: socket.socket) -> None:
    os.environ.update(order.environ)
    lines = Lines(order.dies_at)
    lines.watch()
    asyncio.run(serve(order, app, listener))
    sys.settrace(None)
    threading.settrace(None)
    Path(os.environ["XMCLOUD_HOME"], "lines").write_text(str(lines.count))


def tell(**news: object) -> None:
    sys.stdout.write(f"{json.dumps(news)}\n")
    sys.stdout.flush()


def main() -> None:
    app = asyncio.run(warm_application())
    listener = socket.create_server(("127.0.0.1", 0))
    tell(port=listener.getsockname()[1])
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(Order(**json.loads(line)), app, listener)
            os._exit(0)
        tell(pid=pid)
        tell(ended=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
