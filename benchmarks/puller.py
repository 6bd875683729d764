"""A process that pulls and prints how many milliseconds each message took to come.

`python -m benchmarks.puller URL COUNT` pulls from `bare_queue`,
`python -m benchmarks.puller PROJECT TOPIC COUNT` from Pub/Sub.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp

from xmcloud.core.ports import Delivery, Subscription

Pull = Callable[[], Awaitable[str]]


async def pull_all(pull: Pull, count: int) -> None:
    print("ready", flush=True)
    for _ in range(count):
        sent = ""
        while not sent:
            sent = await pull()
        print((time.time_ns() - int(sent)) / 1e6, flush=True)


async def from_http(url: str, count: int) -> None:
    async with aiohttp.ClientSession() as session:

        async def pull() -> str:
            async with session.post(f"{url}/pull") as answer:
                return await answer.text()

        await pull_all(pull, count)


async def from_pubsub(project: str, topic: str, count: int) -> None:
    from xmcloud.adapters.gcp.pubsub import PubSubQueue

    queue = PubSubQueue(project)

    async def pull() -> str:
        deliveries: list[Delivery] = await queue.pull([Subscription(topic, "bench")], 1, 30)
        await queue.acknowledge(deliveries)
        return "".join(delivery.message.body for delivery in deliveries)

    await pull_all(pull, count)
    await queue.close()


if len(sys.argv) == 3:
    asyncio.run(from_http(sys.argv[1], int(sys.argv[2])))
else:
    asyncio.run(from_pubsub(sys.argv[1], sys.argv[2], int(sys.argv[3])))
