"""The bare adapters of a stack's backend, for floors."""

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.stack import Stack
from xmcloud.adapters.sqlite import SqliteQueue, SqliteStore
from xmcloud.core.clock import SystemClock
from xmcloud.core.ports import Message, Queue, Store, Subscription, Write

TRANSACTIONS = 2
PROJECT = "bench"


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[tuple[Store, Queue]]:
    """A store and a queue of the kind, `embedded` or `emulators`, apart from the stack's own."""
    store: Store
    queue: Queue
    if kind == "embedded":
        folder.mkdir(exist_ok=True)
        store = SqliteStore(folder / "store.db")
        queue = SqliteQueue(folder / "queue.db", SystemClock())
    else:
        from xmcloud.adapters.gcp.firestore import FirestoreStore
        from xmcloud.adapters.gcp.pubsub import PubSubQueue

        store, queue = FirestoreStore(PROJECT), PubSubQueue(PROJECT)
    try:
        yield store, queue
    finally:
        await queue.close()
        await store.close()


def kind_of(stack: Stack) -> str:
    """Also points Google's clients of this process at the stack's emulators."""
    if not stack.emulators:
        return "embedded"
    addresses = stack.plane.home.emulators()
    assert addresses is not None
    os.environ.update(addresses.environment())
    return "emulators"


async def floor_samples(kind: str, folder: Path, count: int) -> list[float]:
    """Milliseconds of a bare publish and pull between two processes, two transactions (a read
    and a conditional write each), and a fork and exec, all on that backend."""
    folder.mkdir(exist_ok=True)
    topic = f"floor-{secrets.token_hex(4)}"
    subscription = Subscription(topic, "bench")
    async with opened(kind, folder) as (store, queue):
        await queue.subscribe([subscription])
        puller = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.puller", kind, str(folder), topic, str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert puller.stdout is not None
        await asyncio.to_thread(puller.stdout.readline)
        samples = []
        for number in range(count):
            await queue.publish(topic, [Message("", str(time.time_ns()))])
            received = float(await asyncio.to_thread(puller.stdout.readline))
            stored = sum([await _transaction(store, number) for _ in range(TRANSACTIONS)])
            samples.append(received + stored + await asyncio.to_thread(_fork_and_exec))
        puller.wait()
    return samples


async def _transaction(store: Store, number: int) -> float:
    id = f"doc-{number}"
    if (await store.get("bench", [id]))[0] is None:
        await store.commit([Write.create("bench", id, {"n": 0, "body": "x" * 1000})])
    began = time.perf_counter()
    (document,) = await store.get("bench", [id])
    assert document is not None
    await store.commit([Write.replace("bench", document, {**document.data, "n": began})])
    return (time.perf_counter() - began) * 1e3


def _fork_and_exec() -> float:
    began = time.time_ns()
    answer = subprocess.run(["date", "+%s%N"], capture_output=True, check=True)
    return (int(answer.stdout) - began) / 1e6


async def raw_batch_rate(kind: str, folder: Path, count: int, body: str) -> float:
    """Documents a second in commits as large as a request's."""
    async with opened(kind, folder) as (store, _):
        began = time.perf_counter()
        for start in range(0, count, 400):
            ids = range(start, min(count, start + 400))
            run = secrets.token_hex(8)
            await store.commit(
                [Write.create("bench", f"{run}-{i}", {"n": i, "body": body}) for i in ids]
            )
        return count / (time.perf_counter() - began)
