"""A process that pulls and prints how many milliseconds each message took to come."""

import asyncio
import sys
import time
from pathlib import Path

from benchmarks.backends import opened
from xmcloud.core.ports import Delivery, Subscription


async def main(kind: str, folder: str, topic: str, count: int) -> None:
    async with opened(kind, Path(folder)) as (_, queue):
        subscription = Subscription(topic, "bench")
        print("ready", flush=True)
        for _ in range(count):
            deliveries: list[Delivery] = []
            while not deliveries:
                deliveries = await queue.pull([subscription], 1, 30)
            print((time.time_ns() - int(deliveries[0].message.body)) / 1e6, flush=True)
            await queue.acknowledge(deliveries)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
