"""One SQLite file: its connections, and commits that share a sync of the disk."""

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from xmcloud.adapters.sqlite.faults import explain, explained

T = TypeVar("T")
Row = tuple[Any, ...]

INLINE = 64
"""Rows that one transaction or one read may touch on the event loop; more go to a thread."""

_PATIENCE = 30_000
"""Milliseconds to wait for another process's transaction."""


@dataclass(slots=True)
class _Job:
    work: Callable[[sqlite3.Connection], object]
    size: int
    answer: asyncio.Future[Any]


@dataclass(slots=True)
class _Outcome:
    value: object = None
    error: Exception | None = None

    def settle(self, answer: asyncio.Future[Any]) -> None:
        if answer.done():
            return
        if self.error is None:
            answer.set_result(self.value)
        else:
            answer.set_exception(self.error)


def _patiently(attempt: Callable[[], T]) -> T:
    """Again while another process changes the same new file to WAL, for which SQLite won't wait."""
    end = time.monotonic() + _PATIENCE / 1000
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _is_busy(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


class Database:
    """Short statements run on the event loop, the sync of a commit and bulk work in threads.

    A statement takes about 10 us and a hop to a thread and back 60 us, a sync 300 us and more.
    What is asked for during a sync shares the next transaction, so a hundred concurrent commits
    cost a few syncs. Readers have connections of their own and never wait for a writer.
    Belongs to one event loop.
    """

    def __init__(
        self, path: Path, synchronous: Literal["FULL", "NORMAL"], schema: str = ""
    ) -> None:
        """Raises `CorruptStore`, `StorageFull` or `Unavailable`."""
        self.path = path
        self._synchronous = synchronous
        self._jobs: deque[_Job] = deque()
        self._drain: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(1, "sqlite-write"), ThreadPoolExecutor(1, "sqlite-read")
        self._bulk_reader: sqlite3.Connection | None = None
        with explained(path):
            self._writer = _patiently(lambda: self._open_writer(schema))
            self._reader = self._connect()

    def _open_writer(self, schema: str) -> sqlite3.Connection:
        connection = self._connect()
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN IMMEDIATE; {schema}; COMMIT; PRAGMA busy_timeout = 0")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=_PATIENCE / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA temp_store = MEMORY")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    async def read(self, sql: str, values: Sequence[object], size: int = 1) -> list[Row]:
        """The rows of a query that is expected to touch `size` of them."""
        with explained(self.path):
            if size <= INLINE:
                return self._reader.execute(sql, values).fetchall()
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads[1], self._read_bulk, sql, values)

    def _read_bulk(self, sql: str, values: Sequence[object]) -> list[Row]:
        if self._bulk_reader is None:
            self._bulk_reader = self._connect()
        return self._bulk_reader.execute(sql, values).fetchall()

    async def write(self, work: Callable[[sqlite3.Connection], T], size: int = 1) -> T:
        """The answer of `work`, durable; nothing of it is kept if it raises.

        It runs in a transaction that other work may share, each in a savepoint of its own.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._jobs.append(_Job(work, size, answer))
        if self._drain is None:
            self._drain = loop.create_task(self._drain_jobs())
        return await answer

    async def _drain_jobs(self) -> None:
        try:
            while self._jobs:
                await self._transact(self._next_batch())
        finally:
            self._drain = None

    def _next_batch(self) -> list[_Job]:
        batch = [self._jobs.popleft()]
        size = batch[0].size
        while self._jobs and size + self._jobs[0].size <= INLINE:
            batch.append(self._jobs.popleft())
            size += batch[-1].size
        return batch

    async def _transact(self, batch: list[_Job]) -> None:
        try:
            outcomes = await self._attempt(batch)
        except sqlite3.Error as error:
            self._roll_back()
            outcomes = [_Outcome(error=explain(error, self.path) or error) for _ in batch]
        except BaseException:
            self._threads[0].submit(self._roll_back)
            for job in batch:
                job.answer.cancel()
            raise
        for job, outcome in zip(batch, outcomes, strict=True):
            outcome.settle(job.answer)

    async def _attempt(self, batch: list[_Job]) -> list[_Outcome]:
        loop = asyncio.get_running_loop()
        thread = self._threads[0]
        if not self._begin_at_once():
            await loop.run_in_executor(thread, self._begin)
        if sum(job.size for job in batch) <= INLINE:
            outcomes = [self._run(job) for job in batch]
        else:
            outcomes = await loop.run_in_executor(thread, lambda: [self._run(j) for j in batch])
        await loop.run_in_executor(thread, self._writer.execute, "COMMIT")
        return outcomes

    def _begin_at_once(self) -> bool:
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
            return False
        return True

    def _begin(self) -> None:
        self._writer.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        finally:
            self._writer.execute("PRAGMA busy_timeout = 0")

    def _run(self, job: _Job) -> _Outcome:
        self._writer.execute("SAVEPOINT job")
        try:
            return _Outcome(job.work(self._writer))
        except sqlite3.Error:
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asked for the work
            self._writer.execute("ROLLBACK TO job")
            return _Outcome(error=error)
        finally:
            if self._writer.in_transaction:
                self._writer.execute("RELEASE job")

    def _roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    async def close(self) -> None:
        """Finishes the work that was asked for."""
        if self._drain is not None:
            await asyncio.wait({self._drain})
        for thread in self._threads:
            thread.shutdown()
        for connection in (self._reader, self._bulk_reader, self._writer):
            if connection is not None:
                connection.close()
