"""What the control plane has yet to hear of one attempt: kept until it was taken."""

import asyncio
import base64
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from xmcloud.core.models import Outcome, Reason, ReasonCode
from xmcloud.core.protocol import Problem
from xmcloud.core.worker_protocol import Finished, Output, Report, Started

CHUNK_BYTES = 256 * 1024
_LAST_LINES = 20
_LAST_BYTES = 3000


@dataclass(frozen=True, slots=True)
class Ending:
    outcome: Outcome
    reason: Reason
    results: dict[str, JsonValue]


class News:
    """The start, the output and the end of an attempt.

    The log file on disk is the buffer: what was not taken yet is read again. `closed` is set when
    the end was taken, or when anything was refused for good.
    """

    def __init__(
        self, job_id: str, fence: int, log: Path, on_refused: Callable[[Problem], None]
    ) -> None:
        self.job_id = job_id
        self.fence = fence
        self.closed = asyncio.Event()
        self._log = log
        self._on_refused = on_refused
        self._started_at: datetime | None = None
        self._taken = 0
        self._ending: Ending | None = None

    def started(self, at: datetime) -> None:
        self._started_at = at

    def finished(self, ending: Ending) -> None:
        """Nothing writes to the log any more."""
        self._ending = ending

    @property
    def grown(self) -> bool:
        """There is output that was not taken yet."""
        return self._size() > self._taken

    @property
    def urgent(self) -> bool:
        """The end, or a whole piece of output."""
        if self.closed.is_set():
            return False
        return self._ending is not None or self._size() - self._taken >= CHUNK_BYTES

    def collect(self, budget: int) -> list[Report]:
        """What to report now, in order, with at most `budget` bytes of output."""
        if self.closed.is_set():
            return []
        reports: list[Report] = []
        if self._started_at is not None:
            at = self._started_at
            reports.append(Started(job_id=self.job_id, fence=self.fence, at=at))
        size, sent = self._size(), self._taken
        while sent < size and budget > 0:
            output = self._read(sent, min(size - sent, CHUNK_BYTES, budget))
            if output is None:
                break
            reports.append(output)
            sent += len(output.data)
            budget -= len(output.data)
        if self._ending is not None and sent >= size:
            reports.append(self._end(self._ending))
        return reports

    def taken(self, report: Report) -> None:
        if isinstance(report, Started):
            self._started_at = None
        elif isinstance(report, Output):
            self._taken = report.offset + len(report.data)
        else:
            self.closed.set()

    def refused(self, problem: Problem) -> None:
        """The attempt is over for the control plane, or its end was taken before."""
        self.closed.set()
        if self._ending is None:
            self._on_refused(problem)

    def objected(self, problem: Problem) -> None:
        """A report was not acceptable. An end goes again without what the job put into it."""
        if self._ending is None or self._ending.reason.code is ReasonCode.SETUP_FAILED:
            self.refused(problem)
            return
        message = f"the report of its end was refused: {problem.detail} ({self._ending.outcome})"
        reason = Reason(code=ReasonCode.SETUP_FAILED, message=message)
        self._ending = Ending(Outcome.FAILED, reason, {})

    def last_lines(self) -> str:
        """The end of the output, for people."""
        size = self._size()
        if not size:
            return ""
        with self._log.open("rb") as file:
            file.seek(max(0, size - _LAST_BYTES))
            text = file.read(_LAST_BYTES).decode(errors="replace")
        lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
        return "\n".join(lines[-_LAST_LINES - 1 :]).strip("\n")

    def _size(self) -> int:
        try:
            return os.stat(self._log).st_size
        except FileNotFoundError:
            return 0

    def _read(self, offset: int, length: int) -> Output | None:
        with self._log.open("rb", buffering=0) as file:
            file.seek(offset)
            data = base64.b64encode(file.read(length))
        if not data:
            return None
        return Output(job_id=self.job_id, fence=self.fence, offset=offset, data=data)

    def _end(self, ending: Ending) -> Finished:
        return Finished(
            job_id=self.job_id,
            fence=self.fence,
            outcome=ending.outcome,
            reason=ending.reason,
            results=ending.results,
        )
