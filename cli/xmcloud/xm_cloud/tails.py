"""Follows the logs of a few jobs at a time."""

import queue
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from xmcloud.core.errors import XmcloudError
from xmcloud.core.models import Job
from xmcloud.xm_cloud.client import Client

AT_ONCE = 4
POLL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines that a job printed."""

    job: Job
    lines: Sequence[str]


News = Job | Lines | None
"""What there is to show; None only wakes who waits."""


class Tails:
    """Puts the lines of every attempt into a queue, in the order in which attempts began.

    Attempts beyond a few wait for their turn, and are then shown from their beginning.
    """

    def __init__(self, client: Client, news: "queue.SimpleQueue[News]") -> None:
        self._client = client
        self._news = news
        self._lock = threading.Lock()
        self._seen: set[tuple[str, int]] = set()
        self._line: deque[Job] = deque()
        self._running = 0

    @property
    def busy(self) -> bool:
        with self._lock:
            return bool(self._line or self._running)

    def follow(self, job: Job) -> None:
        """Follows its newest attempt, if it has begun and is not followed yet."""
        attempt = (job.id, job.fence)
        if not job.attempts or job.state.value == "starting" or attempt in self._seen:
            return
        self._seen.add(attempt)
        with self._lock:
            self._line.append(job)
            if self._running < AT_ONCE:
                self._running += 1
                threading.Thread(target=self._run, name="xmcloud-tail", daemon=True).start()

    def close(self) -> None:
        """Starts no further ones; those under way end with their request."""
        with self._lock:
            self._line.clear()

    def _run(self) -> None:
        while job := self._next():
            try:
                self._tail(job)
            except XmcloudError as error:
                self._news.put(Lines(job, [f"(no more output is shown: {error})"]))
        self._news.put(None)

    def _next(self) -> Job | None:
        with self._lock:
            if self._line:
                return self._line.popleft()
            self._running -= 1
            return None

    def _tail(self, job: Job) -> None:
        offset, rest = 0, b""
        while True:
            piece = self._client.log(job.id, job.fence, offset, POLL_SECONDS)
            offset = piece.offset + len(piece.data)
            *lines, rest = (rest + piece.data).split(b"\n")
            if piece.complete and rest:
                lines.append(rest)
            if lines:
                self._news.put(Lines(job, [_shown(line) for line in lines]))
            if piece.complete:
                return


def _shown(line: bytes) -> str:
    """The last state of a line that was drawn over."""
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
