"""A run as its script sees it. Standard library alone."""

import io
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xmcloud.runs.arguments import Argument, plain
from xmcloud.runs.link import Link, say
from xmcloud.runs.spool import Spool


class Summary(dict[str, Any]):
    """What the run comes down to, by name; the results of its job have it."""

    def __init__(self, link: Link | None) -> None:
        super().__init__()
        self._link = link

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._tell()

    def update(self, *values: Any, **named: Any) -> None:
        super().update(*values, **named)
        self._tell()

    def _tell(self) -> None:
        if self._link is not None:
            self._link.tell("summary", values=plain(self))


class Run:
    """What `xmcloud.init` returns. What cannot be recorded is said, and the script goes on.

    `link` leads to the reporter, where there is one; `given` are the arguments of the job that
    this process belongs to. A process that is only a part of a run has neither, nor a spool.
    """

    def __init__(
        self,
        link: Link | None = None,
        given: Mapping[str, Any] | None = None,
        spool: Spool | None = None,
    ) -> None:
        self._link, self._spool = link, spool
        self._given = dict(given or {})
        self._own: dict[str, Any] = {}
        self._refused: set[str] = set()
        self.summary = Summary(link)
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
        self._keep(name, text.encode())

    def figure(self, name: str, figure: Any) -> None:
        """A figure of matplotlib, or the bytes of a PNG."""
        if not isinstance(figure, bytes):
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png")
            figure = buffer.getvalue()
        self._keep(name, figure)

    def _keep(self, name: str, content: bytes | Path) -> None:
        if self._link is None:
            if self._spool is not None:
                self._refuse(f"{name} is not stored: in a job, write it to a bucket")
            return
        assert self._spool is not None
        try:
            self._link.tell("kept", name=name, path=self._spool.keep(content))
        except OSError as error:
            self._refuse(f"{name} is not stored: {error}")

    def _refuse(self, why: str) -> None:
        if why not in self._refused:
            self._refused.add(why)
            say(why)

    def _leave_to_parent(self) -> None:
        self._spool = None
