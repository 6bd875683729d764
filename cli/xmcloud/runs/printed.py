"""What the script printed, on its way to the control plane."""

import time
from collections.abc import Callable
from pathlib import Path

PIECE_BYTES = 512 * 1024
_FIRST_SECONDS, _LONGEST_SECONDS, _GROWTH = 1.0, 5.0, 1.3


class Printed:
    """Bytes of a file that grows, each told once; less often the longer the run goes on."""

    def __init__(self, file: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._file, self._now = file, now
        self._taken = 0
        self._interval, self._ripe_at = _FIRST_SECONDS, 0.0

    @property
    def ripe(self) -> bool:
        """There is something new, and it is time to tell it."""
        return self._now() >= self._ripe_at and self._size() > self._taken

    def piece(self) -> tuple[int, bytes]:
        """What was not taken yet, or its beginning, and its offset."""
        if self._size() <= self._taken:
            return self._taken, b""
        with self._file.open("rb") as file:
            file.seek(self._taken)
            return self._taken, file.read(PIECE_BYTES)

    def taken(self, size: int) -> None:
        self._taken += size
        self._ripe_at = self._now() + self._interval
        self._interval = min(self._interval * _GROWTH, _LONGEST_SECONDS)

    def _size(self) -> int:
        try:
            return self._file.stat().st_size
        except FileNotFoundError:
            return 0
