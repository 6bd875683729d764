"""The embedded queue and nothing else, behind HTTP, as workers reach it there."""

import sys
from pathlib import Path

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from xmcloud.adapters.sqlite import SqliteQueue
from xmcloud.core.clock import SystemClock
from xmcloud.core.ports import Message, Subscription

TOPIC, AUDIENCE = "floor", "bench"


async def main(folder: str, port: int) -> None:
    queue = SqliteQueue(Path(folder, "bare.db"), SystemClock())
    subscription = Subscription(TOPIC, AUDIENCE)
    await queue.subscribe([subscription])

    async def publish(request: Request) -> Response:
        await queue.publish(TOPIC, [Message("", (await request.body()).decode())])
        return Response()

    async def pull(request: Request) -> Response:
        deliveries = await queue.pull([subscription], 1, 30)
        await queue.acknowledge(deliveries)
        return Response("".join(delivery.message.body for delivery in deliveries))

    routes = [Route("/publish", publish, methods=["POST"]), Route("/pull", pull, methods=["POST"])]
    config = uvicorn.Config(
        Starlette(routes=routes), port=port, access_log=False, log_level="warning", lifespan="off"
    )
    await uvicorn.Server(config).serve()


uvloop.run(main(sys.argv[1], int(sys.argv[2])))
