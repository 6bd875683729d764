"""Tells other processes that something changed, without polling.

Each listener has a named pipe in a folder beside the database; to wake it is to write a byte. A
pipe without a reader was left by a process that is gone and is removed.
"""

import asyncio
import contextlib
import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path


class Wakeups:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._own = f"{uuid.uuid4().hex}"
        self._ends: tuple[int, int] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def listen(self, changed: Callable[[], None]) -> None:
        """Calls `changed` after every `notify` of another process; once is enough."""
        if self._ends is not None:
            return
        pipe = self._folder / f".{self._own}"
        os.mkfifo(pipe, 0o600)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        pipe.rename(self._folder / self._own)
        self._ends = reader, writer
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(reader, self._woken, reader, changed)

    @staticmethod
    def _woken(reader: int, changed: Callable[[], None]) -> None:
        os.read(reader, 65536)
        changed()

    def notify(self) -> None:
        for name in os.listdir(self._folder):
            if name != self._own and not name.startswith("."):
                self._wake(self._folder / name)

    @staticmethod
    def _wake(pipe: Path) -> None:
        try:
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            pipe.unlink(missing_ok=True)
            return
        with contextlib.suppress(BlockingIOError):  # full: it is being woken as it is
            os.write(writer, b"\n")
        os.close(writer)

    def close(self) -> None:
        if self._ends is not None and self._loop is not None:
            self._loop.remove_reader(self._ends[0])
            (self._folder / self._own).unlink(missing_ok=True)
            for end in self._ends:
                os.close(end)
            self._ends = None
