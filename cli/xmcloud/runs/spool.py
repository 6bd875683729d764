"""What a run leaves behind before anybody has taken it. Standard library alone."""

import itertools
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xmcloud.core.outputs import INDEX, OUTPUT, OWN, SUMMARY, Entry, Kind
from xmcloud.runs.points import Points

PREFIX = "xmcloud-run-"


def new_place() -> str:
    """Where outputs may be kept: a name that nobody else has."""
    return str(Path(os.environ.get("TMPDIR", "/tmp"), f"{PREFIX}{os.urandom(8).hex()}"))  # noqa: S108


class Spool:
    """The part of a folder of outputs that is this process's; made when it is first needed.

    What was told is in the page cache when a method returns: a process that is killed loses
    nothing. Methods raise OSError.
    """

    def __init__(self, outputs: str) -> None:
        self._outputs = Path(outputs)
        self._began = time.time()
        self._folder = self._outputs / OWN / f"{time.time_ns():020d}-{os.getpid()}"
        self._points: Points | None = None
        self._numbers = itertools.count(1)

    @property
    def output(self) -> Path:
        """Where what is printed is copied to."""
        return self._folder / OUTPUT

    def log(self, step: int | None, scalars: Mapping[str, Any]) -> None:
        """Raises struct.error for what is no number, besides."""
        if self._points is None:
            self._points = Points(self.made())
        self._points.log(step, scalars)

    def keep(self, name: str, content: bytes | Path) -> None:
        """A copy, so that the original may change."""
        self._tell("kept", name, file=self._copied(content))

    def keep_input(self, name: str, path: Path, limit: int) -> None:
        """What it is; a copy besides if it has no more bytes than the limit."""
        content = _listing(path) if path.is_dir() else path
        size = len(content) if isinstance(content, bytes) else path.stat().st_size
        found = {"path": str(path.absolute()), "size": size, "digest": _digest(content)}
        copy = {"file": self._copied(content)} if size <= limit else {}
        self._tell("input", name, **{"is": found}, **copy)

    def follow(self, folder: str, *, below: bool) -> None:
        """TensorBoard's event files there since the run began, in folders below it too."""
        near = os.path.relpath(folder)
        name = os.path.basename(os.path.abspath(folder)) if near.startswith("..") else near
        about = {"folder": os.path.abspath(folder), "since": self._began, "below": below}
        self._tell("tensorboard", name, **about)

    def summarize(self, values: Mapping[str, Any]) -> None:
        file = self.made() / SUMMARY
        part = self.made() / f"part-{next(self._numbers)}"
        part.write_text(json.dumps(values), encoding="utf-8")
        part.replace(file)

    def made(self) -> Path:
        if not self._folder.exists():
            self._outputs.mkdir(mode=0o700, exist_ok=True)
            self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    def _copied(self, content: bytes | Path) -> str:
        name = f"kept-{next(self._numbers)}"
        copy = self.made() / name
        if isinstance(content, bytes):
            copy.write_bytes(content)
        else:
            shutil.copyfile(content, copy)
        return name

    def _tell(self, kind: Kind, name: str, **about: Any) -> None:
        line = Entry(kind, name, about).line
        index = os.open(self.made() / INDEX, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(index, line)
        finally:
            os.close(index)


def _digest(content: bytes | Path) -> str:
    import hashlib  # takes milliseconds

    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listing(folder: Path) -> bytes:
    """The files below, as `sha256sum` lists them, by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return b"".join(
        f"{_digest(path)}  ".encode() + os.fsencode(path.relative_to(folder)) + b"\n"
        for path in files
    )


def remove(place: str) -> None:
    shutil.rmtree(place, ignore_errors=True)
