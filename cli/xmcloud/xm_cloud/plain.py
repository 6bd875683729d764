"""Progress as lines, for files and pipes."""

import sys
from collections.abc import Sequence
from typing import Self, TextIO

from xmcloud.core.models import Job
from xmcloud.xm_cloud.rows import (
    duration,
    final_table,
    label,
    outcome,
    parameters,
    results,
    summary,
)


class PlainView:
    """One line a change of state and one a line of output."""

    def __init__(self, jobs: Sequence[Job], stream: TextIO | None = None) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._stream = stream or sys.stderr

    def __enter__(self) -> Self:
        for job in self._jobs.values():
            self._write(job, f"{job.state.value} {parameters(job)}")
        return self

    def __exit__(self, *_: object) -> None:
        jobs = list(self._jobs.values())
        for line in columns(final_table(jobs)):
            self._stream.write(f"{line}\n")
        self._stream.write(f"{summary(jobs)}\n")

    def changed(self, job: Job) -> None:
        before = self._jobs[job.id]
        self._jobs[job.id] = job
        if (before.state, before.fence) == (job.state, job.fence):
            return
        details = [duration(job), results(job)] if job.state.terminal else []
        self._write(job, " ".join(filter(None, [outcome(job), *details])))

    def printed(self, job: Job, lines: Sequence[str]) -> None:
        for line in lines:
            self._write(job, line)

    def _write(self, job: Job, text: str) -> None:
        self._stream.write(f"[{label(job)}] {text.rstrip()}\n")
        self._stream.flush()


def columns(rows: list[list[str]]) -> list[str]:
    """The cells of each column below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
