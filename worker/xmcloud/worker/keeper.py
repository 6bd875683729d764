"""The keeper: starts the processes of jobs and writes down how they end, worker or not.

Run by its path, `python -I -S keeper.py`, with a listening socket as standard input: it imports the
standard library alone. Messages are a length of four bytes and JSON.
"""

import ctypes
import json
import math
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_IDLE_SECONDS = 1.0
_AGAIN_SECONDS = 1.0
_PR_SET_CHILD_SUBREAPER = 36
_LENGTH = struct.Struct("!I")
_READ_BYTES = 256 * 1024


class Messages:
    """The messages in a stream of bytes."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Those that are complete now."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                return
            message: dict[str, Any] = json.loads(self._data[_LENGTH.size : end])
            del self._data[:end]
            yield message


def packed(message: Mapping[str, Any]) -> bytes:
    """A message as bytes of the stream."""
    body = json.dumps(message).encode()
    return _LENGTH.pack(len(body)) + body


def set_subreaper(on: bool) -> bool:
    """Let processes whose parent ends become children of this one; False where not possible."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0)


class _Job:
    """A leader that was started and not yet collected."""

    def __init__(self, popen: "subprocess.Popen[bytes]", told: dict[str, Any]) -> None:
        self.popen = popen
        self.told = told


class _Worker:
    """The connection to a worker."""

    def __init__(
        self,
        connection: socket.socket,
        selector: selectors.BaseSelector,
        on_event: Callable[[int], None],
    ) -> None:
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ, on_event)
        self._connection = connection
        self._selector = selector
        self._messages = Messages()
        self._unsent = b""

    def receive(self) -> Iterator[dict[str, Any]]:
        """Raises ConnectionError at the end."""
        with suppress(BlockingIOError):
            data = self._connection.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError
            yield from self._messages.feed(data)

    def send(self, message: Mapping[str, Any]) -> None:
        self._unsent += packed(message)
        self.flush()

    def flush(self) -> None:
        # Never wait: a worker that was paused must not keep others' exits from being written.
        with suppress(BlockingIOError, ConnectionError):
            self._unsent = self._unsent[self._connection.send(self._unsent) :]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        key = self._selector.get_key(self._connection)
        if key.events != events:
            self._selector.modify(self._connection, events, key.data)

    def close(self) -> None:
        self._selector.unregister(self._connection)
        self._connection.close()


class Keeper:
    """Parent of all jobs of a worker, and of their orphans."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._subreaper = set_subreaper(True)
        self._selector = selectors.DefaultSelector()
        self._woken = _woken_by_signals()
        self._jobs: dict[int, _Job] = {}
        self._unwritten: dict[str, dict[str, Any]] = {}
        self._worker: _Worker | None = None
        self._children = False
        self._alone_since = time.monotonic()

    def run(self) -> None:
        """Until there is neither a worker nor a process to look after."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._collect)
        while not self._over():
            waits = self._worker is not None and not self._unwritten
            for key, events in self._selector.select(None if waits else _AGAIN_SECONDS):
                key.data(events)
            for path, record in list(self._unwritten.items()):
                self._write_exit(path, record)

    def _over(self) -> bool:
        if self._worker is None and not self._children and not self._unwritten:
            return time.monotonic() - self._alone_since >= _IDLE_SECONDS
        self._alone_since = time.monotonic()
        return False

    def _accept(self, _: int) -> None:
        try:
            connection = self._listener.accept()[0]
        except OSError:
            return
        if not _is_of_same_user(connection):
            connection.close()
            return
        self._leave()
        self._worker = _Worker(connection, self._selector, self._on_message)
        jobs = [job.told for job in self._jobs.values()]
        jobs += self._unwritten.values()
        self._worker.send({"keeper": os.getpid(), "subreaper": self._subreaper, "jobs": jobs})

    def _leave(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None

    def _on_message(self, events: int) -> None:
        worker = self._worker
        if worker is None:
            return
        try:
            if events & selectors.EVENT_WRITE:
                worker.flush()
            if events & selectors.EVENT_READ:
                for message in worker.receive():
                    if self._worker is worker:
                        self._obey(worker, message)
        except ConnectionError:
            self._leave()

    def _obey(self, worker: _Worker, message: dict[str, Any]) -> None:
        if message["do"] == "spawn":
            worker.send({"spawned": self._spawn(message)})
        elif message["do"] == "signal":
            # Its number cannot have been given to another group before it is collected.
            if message["pid"] in self._jobs:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(message["pid"], message["signal"])
        elif message["do"] == "leave":
            self._alone_since = -math.inf
            self._leave()

    def _spawn(self, request: dict[str, Any]) -> dict[str, Any]:
        created = time.time()
        try:
            popen = _start(request)
        except OSError as error:
            return {"errno": error.errno, "filename": error.filename}
        except ValueError as error:
            return {"invalid": str(error)}
        self._children = True
        record = {"pid": popen.pid, "created": created}
        path = request["exit_file"]
        told = {**record, "mark": request["mark"], "exit_file": path}
        self._jobs[popen.pid] = _Job(popen, told)
        if path is not None:
            with suppress(OSError):
                _write(os.path.join(os.path.dirname(path), "process.json"), record)
        return record

    def _collect(self, _: int) -> None:
        """Let ended children go, and tell of those that were asked for."""
        self._woken.recv(4096)
        ended = []
        while found := self._collected():
            pid, status = found
            if pid in self._jobs:
                ended.append(self._write_down(self._jobs.pop(pid), status))
        left = self._children or not self._subreaper
        for message in ended:
            if self._worker is not None:
                self._worker.send({**message, "left": left})

    def _collected(self) -> tuple[int, int] | None:
        """Number and status of a child that ended."""
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            self._children = False
            return None
        return (pid, status) if pid else None

    def _write_down(self, job: _Job, status: int) -> dict[str, Any]:
        job.popen.returncode = code = os.waitstatus_to_exitcode(status)
        path = job.told["exit_file"]
        if path is not None:
            self._write_exit(path, {**job.told, "code": code, "at": time.time()})
        return {"ended": job.popen.pid, "code": code}

    def _write_exit(self, path: str, record: dict[str, Any]) -> None:
        self._unwritten.pop(path, None)
        try:
            _write(f"{path}.new", {name: record[name] for name in ("pid", "code", "at")})
            os.replace(f"{path}.new", path)
        except FileNotFoundError:
            pass  # the worker was told, and removed the folder
        except OSError:
            self._unwritten[path] = record


def _write(path: str, record: Mapping[str, Any]) -> None:
    """Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, json.dumps(record).encode())
    finally:
        os.close(descriptor)


def _start(request: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Raises OSError, and ValueError for what no process can be given."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    # A named pipe that nobody reads any more must not stop everything.
    output = os.open(request["log"], flags, 0o600)
    try:
        os.set_blocking(output, True)
        with _on_cores(request["cpus"]):
            return subprocess.Popen(
                request["argv"],
                executable=request["executable"],
                cwd=request["directory"],
                env=request["environment"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    finally:
        os.close(output)


@contextmanager
def _on_cores(cpus: list[int]) -> Iterator[None]:
    """What is started inherits the cores of this process."""
    if not cpus:
        yield
        return
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def _is_of_same_user(connection: socket.socket) -> bool:
    if sys.platform != "linux":
        return True
    size = struct.calcsize("3i")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return bool(struct.unpack("3i", found)[1] == os.getuid())


def _woken_by_signals() -> socket.socket:
    """Something can be read when a child ended; other signals are for the worker to obey."""
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.detach(), warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _nothing)  # not SIG_IGN, which jobs would inherit
    return reading


def _nothing(number: int, frame: FrameType | None) -> None:
    pass


def main() -> None:
    listener = socket.socket(fileno=os.dup(0))
    os.set_inheritable(listener.fileno(), False)
    Keeper(listener).run()


if __name__ == "__main__":
    main()
