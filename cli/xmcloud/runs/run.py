"""A run as its script sees it. Standard library alone."""

import io
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xmcloud.core.errors import XmcloudError
from xmcloud.core.series import NAMES, POINTS
from xmcloud.runs.arguments import Argument, plain
from xmcloud.runs.link import Link, say
from xmcloud.runs.spool import Spool


class Summary(dict[str, Any]):
    """What the run comes down to, by name; the results of its job have it."""

    def __init__(self, changed: Callable[["Summary"], None]) -> None:
        super().__init__()
        self._changed = changed

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._changed(self)

    def update(self, *values: Any, **named: Any) -> None:
        super().update(*values, **named)
        self._changed(self)


class Run:
    """What `xmcloud.init` returns. What cannot be recorded is said, and the script goes on.

    `link` leads to the reporter, where there is one; `given` are the arguments of the job that
    this process belongs to. A process that is only a part of a run has no spool. `keeps` says
    whether somebody takes the files that are left there.
    """

    def __init__(
        self,
        link: Link | None = None,
        given: Mapping[str, Any] | None = None,
        spool: Spool | None = None,
        *,
        keeps: bool = True,
    ) -> None:
        self._link, self._spool, self._keeps = link, spool, keeps
        self._given = dict(given or {})
        self._own: dict[str, Any] = {}
        self._refused: set[str] = set()
        self.summary = Summary(self._summarize)
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def parameters(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of a script without a command line, by name.

        Recorded as they are; in a job, those that were edited have their new values.
        """
        found = {name: self._given.get(name, value) for name, value in defaults.items()}
        self._own |= {name: plain(value) for name, value in found.items()}
        if self._link is not None:
            self._link.tell("parameters", own=self._own)
        return found

    def parsed(self, arguments: list[Argument]) -> None:
        """A parser of command lines has found these."""
        if self._link is not None:
            self._link.tell("parsed", arguments=arguments)

    def log(self, step: int | None = None, **scalars: Any) -> None:
        """Points of series; without a step they are counted. Takes about a microsecond each."""
        if self._spool is None:
            return
        try:
            self._spool.log(step, scalars)
        except struct.error:
            self._refuse(f"of {', '.join(scalars)} not all are numbers")
        except OSError as error:
            self._refuse(f"points are not recorded: {error}")

    def artifact(self, name: str, path: str | os.PathLike[str]) -> None:
        """Keeps a copy of the file; the file may change when this returns."""
        self._keep(name, Path(path))

    def text(self, name: str, text: str) -> None:
        self._keep(name, text.encode(errors="replace"))

    def figure(self, name: str, figure: Any) -> None:
        """A figure of matplotlib, or the bytes of a PNG."""
        if not isinstance(figure, bytes):
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png")
            figure = buffer.getvalue()
        self._keep(name, figure)

    def input(self, name: str, path: str | os.PathLike[str]) -> Path:
        """Records what the run reads there, a file or a folder; the path again.

        Its digest and size; a small file is stored too. Reads all of it, a second or two a GB.
        """
        from xmcloud.runs.capture.limits import file_limit

        def leave(spool: Spool) -> None:
            limit = file_limit(os.environ) if self._keeps else -1
            spool.keep_input(name, Path(path), limit)

        self._leave(name, leave)
        return Path(path)

    def tensorboard(self, folder: str | os.PathLike[str]) -> None:
        """Event files below the folder, from the beginning of the run until its end."""
        self._leave(str(folder), lambda spool: spool.follow(os.fspath(folder), below=True))

    def writes_events(self, folder: str) -> None:
        """A writer of event files was made for the folder."""
        if "://" not in folder:
            self._leave(folder, lambda spool: spool.follow(folder, below=False))

    def _keep(self, name: str, content: bytes | Path) -> None:
        if self._spool is not None and name in (POINTS, NAMES):
            self._refuse(f"{name} is not stored: the run's own series are called that")
        elif self._spool is not None and not self._keeps:
            self._refuse(f"{name} is not stored: in a job, write it to a bucket")
        else:
            self._leave(name, lambda spool: spool.keep(name, content))

    def _leave(self, name: str, leave: Callable[[Spool], None]) -> None:
        if self._spool is None:
            return
        try:
            leave(self._spool)
        except (OSError, XmcloudError) as error:
            self._refuse(f"{name} is not stored: {error}")

    def _summarize(self, summary: Summary) -> None:
        self._leave("summary", lambda spool: spool.summarize(plain(summary)))

    def _refuse(self, why: str) -> None:
        if why not in self._refused:
            self._refused.add(why)
            say(why)

    def _leave_to_parent(self) -> None:
        self._spool = None
