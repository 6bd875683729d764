"""Commands on a pseudo-terminal of their own, as people run and interrupt them."""

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

# In a session of its own, the first terminal that a process opens is the one Ctrl-C comes from.
_ON_TERMINAL = (
    "import os, sys\n"
    "os.close(os.open(os.ttyname(0), os.O_RDWR))\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


DEADLINE = 60.0
"""Seconds; ends a test that would fail, delays none that passes."""


class Terminal:
    """One running command."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
    ) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={**environment, "TERM": "xterm", "COLUMNS": "200"},
            start_new_session=True,
        )
        os.close(slave)
        self._written = bytearray()
        self._more = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        """What was shown, as plain text."""
        return _SEQUENCE.sub("", self._written.decode(errors="replace"))

    def until_shown(self, text: str) -> None:
        with self._more:
            self._more.wait_for(lambda: text in self.text or self._ended, DEADLINE)
            assert text in self.text, self.text

    def write(self, text: str) -> None:
        """As somebody types it."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.write(self._master, b"\x03")

    def end(self) -> int:
        """Its exit status, once it ended and all it wrote is here."""
        try:
            return self._process.wait(DEADLINE)
        finally:
            self.close()

    def close(self) -> None:
        """Ends it, if it did not end by itself; again, it does nothing."""
        self._process.kill()
        self._process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def _read(self) -> None:
        while data := self._some():
            with self._more:
                self._written += data
                self._more.notify_all()
        with self._more:
            self._ended = True
            self._more.notify_all()

    def _some(self) -> bytes:
        try:
            return os.read(self._master, 65536)
        except OSError:  # how a terminal tells that nobody has it open any more
            return b""
