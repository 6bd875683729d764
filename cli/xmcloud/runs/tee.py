"""Copies what a script prints to a file. Standard library alone.

Streams stay the objects that they are, terminals included: what Python writes to them is copied,
what other programs and libraries write to their descriptors is not.
"""

import fcntl
import os
import sys
from pathlib import Path
from typing import Any

LIMIT = 100 * 1000**2
"""Bytes of one run."""

_CUT = b"\nxmcloud: output beyond 100 MB is not recorded\n"
_HIGH = 500
"""A descriptor that a script which closes all of its own does not get for another file."""


class Tee:
    """Raises OSError when the file cannot be made, and nothing later."""

    def __init__(self, file: Path) -> None:
        low = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._file = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        finally:
            os.close(low)
        self._left = LIMIT

    def attach(self) -> None:
        """To the streams of now."""
        for stream in (sys.stdout, sys.stderr):
            self._attach(stream)

    def _attach(self, stream: Any) -> None:
        if stream is None:
            return
        write, copy = stream.write, self._copy

        def copied(text: str) -> Any:
            done = write(text)
            copy(text)
            return done

        try:
            stream.write = copied
        except AttributeError:  # it is of a kind of its own
            return

    def _copy(self, text: str, put: Any = os.write) -> None:
        if self._left <= 0:
            return
        try:
            self._left -= put(self._file, text.encode("utf-8", "replace"))
            if self._left <= 0:
                put(self._file, _CUT)
        except (OSError, AttributeError):
            self._left = 0
