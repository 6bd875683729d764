"""Latency and throughput of jobs through a whole stack."""

import asyncio
import subprocess
import threading
import time
from pathlib import Path

from benchmarks.backends import floor_samples, kind_of, raw_batch_rate
from benchmarks.figures import Figure, median, quantile
from benchmarks.stack import SLOTS, Stack, units
from xmcloud.core.protocol import NewQueue

PRINTS_TIME = ("date", "+%s%N")


def launch_latency(stack: Stack, folder: Path, count: int) -> list[Figure]:
    """From the request that submits a job to the first instruction of its process."""
    kind = kind_of(stack)
    experiment = stack.experiment("latency")
    samples = []
    for number in range(count + 10):
        began = time.time_ns()
        (job,) = stack.submit(experiment, PRINTS_TIME)
        printed = b""
        while not printed:
            printed = stack.client.log(job.id, wait_seconds=30).data
        if number >= 10:
            samples.append((int(printed) - began) / 1e6)
    floor = asyncio.run(floor_samples(kind, folder, count))
    limit = 2.0 if stack.emulators else 2.5
    figures = [
        Figure(
            f"submit to process start, {name}, {kind}",
            quantile(samples, q),
            "ms",
            quantile(floor, q),
            "publish, pull, 2 transactions, exec",
            limit if q == 0.5 else None,
            on_ratio=True,
        )
        for name, q in (("p50", 0.5), ("p99", 0.99))
    ]
    if not stack.emulators:
        figures.insert(1, Figure("submit to process start, p50", median(samples), "ms", limit=40.0))
    return figures


def throughput(stack: Stack, count: int) -> list[Figure]:
    """No-op jobs a second through one worker, against spawning the same processes bare."""
    experiment = stack.experiment("throughput")
    stack.submit(experiment, ("true",), count)
    jobs = stack.finished(experiment, count)
    attempts = [job.attempts[-1] for job in jobs]
    began = min(attempt.claimed_at for attempt in attempts)
    ended = max(attempt.finished_at for attempt in attempts if attempt.finished_at)
    rate = count / (ended - began).total_seconds()
    return [
        Figure(
            f"no-op jobs a second, one worker, {SLOTS} slots, {kind_of(stack)}",
            rate,
            "/s",
            _bare_spawns(count),
            "bare spawns",
            None if stack.emulators else 150.0,
            limit_is_least=True,
        )
    ]


def _bare_spawns(count: int) -> float:
    def spawn() -> None:
        for _ in range(count // SLOTS):
            subprocess.run(["true"], check=True)

    threads = [threading.Thread(target=spawn) for _ in range(SLOTS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.perf_counter() - began)


def acceptance(stack: Stack, folder: Path, count: int) -> list[Figure]:
    """Units a second in a large sweep, against the backend's own batches."""
    kind = kind_of(stack)
    stack.client.create_queue(NewQueue(name="held"))
    experiment = stack.experiment("sweep")
    began = time.perf_counter()
    stack.submit(experiment, ("true",), count, queue="held")
    seconds = time.perf_counter() - began
    body = units(("true",), 1).model_dump_json() * 4
    return [
        Figure(
            f"units accepted a second, sweep of {count:,}, {kind}",
            count / seconds,
            "/s",
            asyncio.run(raw_batch_rate(kind, folder, count, body)),
            "documents in bare batches",
        ),
        Figure(
            f"seconds to accept {count:,} units, {kind}",
            seconds,
            "s",
            limit=None if stack.emulators else 5.0,
        ),
    ]
