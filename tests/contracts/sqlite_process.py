"""Another process at work on the files of a test: sqlite_process.py ACTION PATH ARGUMENT."""

import asyncio
import sys
from pathlib import Path

from tests.contracts.counting import add_one
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.clock import SystemClock
from xmcloud.core.ports import Message, Subscription, Write


async def increment(path: Path, times: str) -> None:
    store = SqliteStore(path)
    for _ in range(int(times)):
        await add_one(store, "counter")
    await store.close()


async def create_pairs(path: Path, _: str) -> None:
    """For ever; says which pairs were answered."""
    store = SqliteStore(path)

    async def pairs(worker: int) -> None:
        number = 0
        while True:
            id = f"{worker}-{number}"
            await store.commit([Write.create(c, id, {"n": number}) for c in ("jobs", "sessions")])
            print(id, flush=True)  # noqa: T201
            number += 1

    await asyncio.gather(*map(pairs, range(5)))


async def publish(path: Path, topic: str) -> None:
    queue = SqliteQueue(path, SystemClock())
    await queue.publish(topic, [Message("", "from another process")])
    await queue.close()


async def open_new(folder: Path, name: str) -> None:
    """At a word from the parent, so that several do it at once."""
    sys.stdin.readline()
    subscription = Subscription("topic", "audience")
    for number in range(10):
        store = SqliteStore(folder / f"store{number}.db")
        await store.commit([Write.create("jobs", name, {})])
        await store.close()
        queue = SqliteQueue(folder / f"queue{number}.db", SystemClock())
        await queue.subscribe([subscription])
        await queue.pull([subscription], 1, 0)
        await queue.close()


if __name__ == "__main__":
    action, path, argument = sys.argv[1:]
    actions = {f.__name__: f for f in (increment, create_pairs, publish, open_new)}
    asyncio.run(actions[action](Path(path), argument))
