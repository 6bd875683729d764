"""Following the log of a job while it is written."""

import io
import shutil
import sys
from typing import TextIO

from xmcloud.cli.logs import LogText
from xmcloud.core.models import Job
from xmcloud.core.screen import clean_line
from xmcloud.xm_cloud.client import Client

_WAIT_SECONDS = 30.0
_ERASE = "\r\x1b[K"


class Screen:
    """Writes the lines of a log; on a terminal also the unfinished one, which changes in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._text = LogText(colour=self._terminal)
        self._drawn = False
        if isinstance(stream, io.TextIOWrapper):  # it may not be one of Unicode
            stream.reconfigure(errors="replace")

    def show(self, data: bytes, final: bool = False) -> None:
        """Show what comes next; `final` ends the log, so that the next bytes begin another."""
        complete = self._text.feed(data, final)
        if self._drawn:
            self._stream.write(_ERASE)
        self._stream.writelines(complete)
        in_place = self._terminal and not self._text.parted
        unfinished = self._text.unfinished if in_place else ""
        self._drawn = bool(unfinished)
        self._stream.write(_fitting(unfinished))
        self._stream.flush()


def _fitting(line: str) -> str:
    """What is longer would wrap, and could then not be erased; it is shown whole once it ends."""
    width = shutil.get_terminal_size().columns - 1
    return line if len(line) <= width else clean_line(line, colour=False)[:width]


def print_log(client: Client, job: Job, stream: TextIO = sys.stdout) -> None:
    """What the newest attempt of the job has written until now."""
    screen = Screen(stream)
    fence: int | None = None
    offset = 0
    while True:
        piece = client.log(job.id, fence or None, offset)
        screen.show(piece.data)
        fence, offset = piece.fence, piece.offset + len(piece.data)
        if not piece.data:
            break
    screen.show(b"", final=True)


def follow(client: Client, job: Job, stream: TextIO = sys.stdout) -> Job:
    """Show the log of the newest attempt, and of those after it, until the job is over."""
    screen = Screen(stream)
    cursor: str | None = None
    shown = 0
    while True:
        if job.fence > shown and job.attempts:
            shown = job.fence
            _follow_attempt(client, job.id, shown, screen)
            job = client.job(job.id)
        elif job.state.terminal:
            return job
        else:
            job, cursor = _next_change(client, job, cursor)


def _follow_attempt(client: Client, job: str, fence: int, screen: Screen) -> None:
    offset = 0
    while True:
        piece = client.log(job, fence, offset, _WAIT_SECONDS)
        offset = piece.offset + len(piece.data)
        screen.show(piece.data, final=piece.complete)
        if piece.complete:
            return


def _next_change(client: Client, job: Job, cursor: str | None) -> tuple[Job, str]:
    """The job as it is after something of its experiment changed, or after a while."""
    changes = client.changes(job.experiment_id, cursor, _WAIT_SECONDS if cursor else 0)
    newest = [change for change in changes.jobs if change.id == job.id]
    return (newest[-1] if newest else job), changes.cursor
