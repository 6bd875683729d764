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

import httpx

from benchmarks.stack import Stack
from xmcloud.adapters.sqlite import SqliteStore
from xmcloud.core.ports import Message, Store, Subscription, Write
from xmcloud.local.processes import free_port

TRANSACTIONS = 2
PROJECT = "bench"
_MODULE = [sys.executable, "-m"]


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Store]:
    """A store of the kind, `embedded` or `emulators`, apart from the stack's own."""
    store: Store
    if kind == "embedded":
        folder.mkdir(exist_ok=True)
        store = SqliteStore(folder / "store.db")
    else:
        from xmcloud.adapters.gcp.firestore import FirestoreStore

        store = FirestoreStore(PROJECT)
    try:
        yield store
    finally:
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
    and a conditional write each), and a fork and exec, all on that backend.

    Embedded, both ends reach the queue over HTTP, as clients and workers do there.
    """
    folder.mkdir(exist_ok=True)
    samples: list[float] = []
    messages = _over_http(folder, count) if kind == "embedded" else _over_pubsub(count)
    async with opened(kind, folder) as store:
        async for received in messages:
            stored = 0.0
            for _ in range(TRANSACTIONS):
                stored += await _transaction(store, len(samples))
            samples.append(received + stored + await asyncio.to_thread(_fork_and_exec))
    return samples


async def _over_http(folder: Path, count: int) -> AsyncIterator[float]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([*_MODULE, "benchmarks.bare_queue", str(folder), str(port)])
    with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
        client.get(url)
        puller = _puller(url, str(count))
        await _line(puller)
        for _ in range(count):
            client.post(f"{url}/publish", content=str(time.time_ns()))
            yield await _line(puller)
    puller.wait()
    server.terminate()
    server.wait()


async def _over_pubsub(count: int) -> AsyncIterator[float]:
    from xmcloud.adapters.gcp.pubsub import PubSubQueue

    topic = f"floor-{secrets.token_hex(4)}"
    queue = PubSubQueue(PROJECT)
    await queue.subscribe([Subscription(topic, "bench")])
    puller = _puller(PROJECT, topic, str(count))
    await _line(puller)
    for _ in range(count):
        await queue.publish(topic, [Message("", str(time.time_ns()))])
        yield await _line(puller)
    await queue.close()


def _puller(*arguments: str) -> "subprocess.Popen[str]":
    argv = [*_MODULE, "benchmarks.puller", *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


async def _line(puller: "subprocess.Popen[str]") -> float:
    assert puller.stdout is not None
    line = await asyncio.to_thread(puller.stdout.readline)
    return 0.0 if line == "ready\n" else float(line)


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
    async with opened(kind, folder) as store:
        began = time.perf_counter()
        for start in range(0, count, 400):
            ids = range(start, min(count, start + 400))
            run = secrets.token_hex(8)
            await store.commit(
                [Write.create("bench", f"{run}-{i}", {"n": i, "body": body}) for i in ids]
            )
        return count / (time.perf_counter() - began)
