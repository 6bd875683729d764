"""What the control plane has yet to hear of one attempt: kept until it was taken."""

import asyncio
import base64
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from xmcloud.core.models import Execution, Outcome, Reason, ReasonCode, Statistics
from xmcloud.core.protocol import Problem
from xmcloud.core.screen import clean_line
from xmcloud.core.worker_protocol import OUTPUT_BLOCK, Finished, Measured, Output, Report, Started
from xmcloud.worker.redaction import JobLog, Redactor
from xmcloud.worker.thinning import ThinLog

_LAST_LINES = 20
_LAST_CHARACTERS = 3000
_LAST_BYTES = 64 * 1024
_MANY_PIECES = 8
_ENDING = "ending.json"

logger = logging.getLogger("xmcloud.worker")


@dataclass(frozen=True, slots=True)
class Ending:
    outcome: Outcome
    reason: Reason
    results: dict[str, JsonValue]


_ENDINGS: TypeAdapter[Ending] = TypeAdapter(Ending)


class News:
    """The start, the output, the statistics and the end of an attempt.

    The files on disk are the buffer: what was not taken yet is read again. `closed` is set when
    the end was taken, or when anything was refused for good.
    """

    def __init__(
        self,
        job_id: str,
        fence: int,
        log: Path,
        on_refused: Callable[[Problem], None],
        clock: Callable[[], float] = time.monotonic,
        trace: str = "",
    ) -> None:
        self.trace = trace
        self.job_id = job_id
        self.fence = fence
        self.closed = asyncio.Event()
        self.end_taken = False
        self.log = JobLog(log)
        self._log = ThinLog(self.log, clock)
        self._on_refused = on_refused
        self._started: Started | None = None
        self._measured: Measured | None = None
        self._taken = 0
        self._pieces = 0
        self._ending: Ending | None = None
        self._unreadable = False

    def go_on(self, taken: int) -> None:
        """As an earlier run of the worker began; so many bytes of output were taken."""
        self._taken = taken
        self._pieces = _MANY_PIECES if taken % OUTPUT_BLOCK else 0

    def mask_with(self, redactor: Redactor) -> None:
        """What is read of the log from now on."""
        self.log.mask_with(redactor, self._log.told_of(self._taken))

    def saved_ending(self) -> Ending | None:
        """The end that it came to under an earlier run of the worker."""
        saved = self.log.path.with_name(_ENDING)
        try:
            return _ENDINGS.validate_json(saved.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            logger.warning("%s cannot be read: %s", saved, error)
            return None

    def started(self, at: datetime, execution: Execution | None = None) -> None:
        self._started = Started(job_id=self.job_id, fence=self.fence, at=at, execution=execution)

    def measured(self, statistics: Statistics) -> None:
        """Goes with the next request; what is newer takes its place."""
        self._measured = Measured(job_id=self.job_id, fence=self.fence, statistics=statistics)

    def finished(self, ending: Ending) -> None:
        """Nothing writes to the log any more."""
        self._ending, self.log.whole = ending, True
        saved = self.log.path.with_name(_ENDING)
        try:
            saved.with_suffix(".new").write_bytes(_ENDINGS.dump_json(ending))
            saved.with_suffix(".new").replace(saved)
        except OSError as error:
            logger.warning("the end of an attempt is kept in memory alone: %s", error)

    @property
    def grown(self) -> bool:
        """There is output that was not taken yet."""
        try:
            return self._log.size() > self._taken
        except OSError as error:
            self._cannot_read(error)
            return False

    @property
    def urgent(self) -> bool:
        """The end, or a whole piece of output."""
        if self.closed.is_set() or self._unreadable:
            return False
        return self._ending is not None or self._log.ahead(self._taken) >= OUTPUT_BLOCK

    def collect(self, budget: int) -> list[Report]:
        """What to report now, in order, with at most `budget` bytes of output."""
        if self.closed.is_set():
            return []
        reports: list[Report] = [self._started] if self._started is not None else []
        try:
            sent = self._collect_output(reports, budget)
            over = self._ending is not None and self._log.ends_at(sent)
            self._unreadable = False
        except OSError as error:
            self._cannot_read(error)
            over = False
        if self._measured is not None:
            reports.append(self._measured)
        if self._ending is not None and over:
            reports.append(self._end(self._ending))
        return reports

    def taken(self, report: Report) -> None:
        if isinstance(report, Started):
            self._started = None
        elif isinstance(report, Measured):
            if report is self._measured:
                self._measured = None
        elif isinstance(report, Output):
            self._taken = report.offset + len(report.data)
            self._pieces = self._pieces + 1 if self._taken % OUTPUT_BLOCK else 0
        else:
            self.end_taken = True
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
        try:
            text = self.log.last(_LAST_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return ""
        lines = [clean_line(line, colour=False) for line in text.split("\n")]
        return "\n".join(lines[-_LAST_LINES - 1 :])[-_LAST_CHARACTERS:].strip("\n")

    def _collect_output(self, reports: list[Report], budget: int) -> int:
        """Adds the output that was not taken; returns where it ends.

        A block that went in many pieces goes once more as a whole when it is complete: whoever
        reads it then finds one piece.
        """
        sent, final = self._taken, self._ending is not None
        while budget > 0:
            begins = sent - sent % OUTPUT_BLOCK
            data = self._log.read(sent, min(begins + OUTPUT_BLOCK - sent, budget), final=final)
            if not data:
                break
            offset, sent = sent, sent + len(data)
            if sent == begins + OUTPUT_BLOCK and begins == self._many_pieces_from():
                data, offset = self._again(begins, offset) + data, begins
            reports.append(
                Output(
                    job_id=self.job_id,
                    fence=self.fence,
                    offset=offset,
                    data=base64.b64encode(data),
                )
            )
            budget -= len(data)
        return sent

    def _many_pieces_from(self) -> int | None:
        """Where the block begins that was told in many pieces."""
        if self._pieces < _MANY_PIECES:
            return None
        return self._taken - self._taken % OUTPUT_BLOCK

    def _again(self, start: int, stop: int) -> bytes:
        parts: list[bytes] = []
        while start < stop and (part := self._log.read(start, stop - start, final=False)):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def _cannot_read(self, error: OSError) -> None:
        """As when the disk is full; tried again with the next request."""
        if not self._unreadable:
            logger.warning("output of job %s is kept and told later: %s", self.job_id, error)
        self._unreadable = True

    def _end(self, ending: Ending) -> Finished:
        return Finished(
            job_id=self.job_id,
            fence=self.fence,
            outcome=ending.outcome,
            reason=ending.reason,
            results=ending.results,
        )
