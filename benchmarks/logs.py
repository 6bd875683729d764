"""From what a job writes to what the control plane has of it, and a reader sees."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from benchmarks.figures import Figure, quantile
from benchmarks.stack import Stack
from xmcloud.core.models import Job

_LINE_BYTES = 80
_PRINT = """
import sys
line = "x" * {length} + "\\n"
for _ in range({count} // 100):
    sys.stdout.write(line * 100)
"""
_TICK = """
import time
for _ in range({count}):
    print(time.time_ns(), flush=True)
    time.sleep({seconds})
"""


def _python(program: str, **values: object) -> tuple[str, ...]:
    return sys.executable, "-c", program.format(**values)


def _follow(stack: Stack, job: Job) -> Iterator[bytes]:
    """Pieces of the log as they come, until it is complete."""
    offset = 0
    while True:
        piece = stack.client.log(job.id, None, offset, 30)
        offset += len(piece.data)
        if piece.data:
            yield piece.data
        if piece.complete:
            return


def live_tail(stack: Stack, count: int) -> list[Figure]:
    """From the write of a line to a follower that has it; a pipe to a reader is the floor."""
    program = _python(_TICK, count=count, seconds=0.05)
    (job,) = stack.submit(stack.experiment("tail"), program)
    waited: list[float] = []
    rest = b""
    for data in _follow(stack, job):
        now = time.time_ns()
        *lines, rest = (rest + data).split(b"\n")
        waited += [(now - int(line)) / 1e6 for line in lines]
    assert len(waited) == count
    floor = _piped(_python(_TICK, count=min(count, 100), seconds=0.01))
    return [
        Figure(
            f"a line from a job to its follower, {name}",
            quantile(waited, q),
            "ms",
            quantile(floor, q),
            "through a pipe",
            1000.0 if q == 0.99 else None,
        )
        for name, q in (("p50", 0.5), ("p99", 0.99))
    ]


def _piped(program: tuple[str, ...]) -> list[float]:
    with subprocess.Popen(program, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, b"")
        return [(time.time_ns() - int(line)) / 1e6 for line in lines]


def log_throughput(stack: Stack, folder: Path, count: int) -> list[Figure]:
    """Lines a second from the start of a job until the control plane has the last one."""
    program = _python(_PRINT, length=_LINE_BYTES - 1, count=count)
    experiment = stack.experiment("lines")
    stack.submit(experiment, program)
    (job,) = stack.finished(experiment, 1)
    assert sum(map(len, _follow(stack, job))) == count * _LINE_BYTES
    attempt = job.attempts[-1]
    assert attempt.started_at is not None
    assert attempt.finished_at is not None
    rate = count / (attempt.finished_at - attempt.started_at).total_seconds()
    return [
        Figure(
            f"lines of {_LINE_BYTES} bytes a second, from a job to the control plane",
            rate,
            "/s",
            floor,
            what,
            limit,
            limit_is_least=True,
        )
        for floor, what, limit in (
            (_uploaded(stack), "bare uploads of the same bytes", 100_000.0),
            (_through_cat(folder, program, count), "through a pipe into a file", None),
        )
    ]


def printing(stack: Stack, folder: Path, count: int) -> list[Figure]:
    """Lines a second of `xmcloud logs` into a file, and what it needs of memory."""
    experiment = stack.experiment("lines")
    stack.submit(experiment, _python(_PRINT, length=_LINE_BYTES - 1, count=count))
    (job,) = stack.finished(experiment, 1)
    xmcloud = str(Path(sys.executable).with_name("xmcloud"))
    with (folder / "printed").open("wb") as file:
        began = time.perf_counter()
        with subprocess.Popen([xmcloud, "logs", job.id], stdout=file) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
    assert (folder / "printed").stat().st_size == count * _LINE_BYTES
    began = time.perf_counter()
    sum(map(len, _follow(stack, job)))
    floor = count / (time.perf_counter() - began)
    return [
        Figure("lines a second, xmcloud logs", count / seconds, "/s", floor, "bare downloads"),
        Figure("memory of xmcloud logs", used.ru_maxrss / 1e3, "MB", limit=150.0),
    ]


def _uploaded(stack: Stack) -> float:
    """Lines a second in blobs of 1 MiB that are put over HTTP, one after the other."""
    size = 1024 * 1024
    blobs = [number.to_bytes(8, "big") * (size // 8) for number in range(32)]
    digests = [sha256(data).hexdigest() for data in blobs]
    began = time.perf_counter()
    for digest, data in zip(digests, blobs, strict=True):
        stack.client.put_blob(digest, data)
    return len(blobs) * size / _LINE_BYTES / (time.perf_counter() - began)


def _through_cat(folder: Path, program: tuple[str, ...], count: int) -> float:
    """Lines a second of the same program into `cat`, and from there into a file."""
    with (folder / "cat").open("wb") as file:
        began = time.perf_counter()
        with (
            subprocess.Popen(program, stdout=subprocess.PIPE) as writer,
            subprocess.Popen(["cat"], stdin=writer.stdout, stdout=file) as reader,
        ):
            reader.wait()
            writer.kill()
    return count / (time.perf_counter() - began)
