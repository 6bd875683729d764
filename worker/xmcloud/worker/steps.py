"""The steps of an attempt's setup, and the way of what they print into its log."""

import asyncio
import errno
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from xmcloud.worker.disk import DiskFull
from xmcloud.worker.process import Launcher
from xmcloud.worker.setup import LOG, Access, StepFailed

_USER_INFO = re.compile(rb"(https?://)[^/\s]+@|(ssh://[^/\s@:]+):[^/\s]+@")
_HIDDEN = b"***"
_READ_BYTES = 64 * 1024
_LONGEST_LINE_BYTES = 1024 * 1024
_LAST_BYTES = 3000
_LAST_LINES = 20


class Steps:
    """Runs the steps of one attempt."""

    def __init__(
        self, launcher: Launcher, folder: Path, mark: Mapping[str, str], base: Mapping[str, str]
    ) -> None:
        self._launcher = launcher
        self._folder = folder
        self._mark = mark
        self._base = base

    async def __call__(
        self, name: str, argv: Sequence[str], access: Access | None = None, /
    ) -> None:
        """Raises `StepFailed` and `DiskFull`."""
        access = access or Access(self._base)
        with Relay(self._folder, access.secrets) as relay:
            process = await self._launcher.spawn(
                argv,
                directory=self._folder,
                environment=access.environment,
                mark=self._mark,
                log=relay.pipe,
            )
            relay.start()
            try:
                code = await process.wait()
            finally:
                if not process.ended:
                    await process.end(0)
                await process.bury(0)
        lines = relay.last_lines()
        if code == 0:
            return
        if "No space left on device" in lines or f"os error {errno.ENOSPC}" in lines:
            raise DiskFull(f"no space is left to {name}")
        raise StepFailed(name, Path(argv[0]).name, code, lines)


class Relay:
    """A named pipe whose lines go to the log without secrets; the end of them is kept."""

    def __init__(self, folder: Path, secrets: Collection[str]) -> None:
        self.pipe = folder / "step.pipe"
        self._log = folder / LOG
        found = sorted((s.encode() for s in secrets if s), key=len, reverse=True)
        self._secrets = re.compile(b"|".join(map(re.escape, found))) if found else None
        self._pending = b""
        self._last = b""
        self._failed: OSError | None = None
        self._reading = False

    def __enter__(self) -> Self:
        self.pipe.unlink(missing_ok=True)
        os.mkfifo(self.pipe, 0o600)
        self._descriptor = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return self

    def start(self) -> None:
        """Something has opened the other end."""
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        self._reading = True

    def __exit__(self, *_: object) -> None:
        while self._reading:
            self._read()
        self._write(b"", last=True)
        os.close(self._descriptor)
        self.pipe.unlink(missing_ok=True)

    def last_lines(self) -> str:
        """Raises OSError when the log could not be written."""
        if self._failed is not None:
            raise self._failed
        text = self._last.decode(errors="replace")
        lines = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n")]
        return "\n".join(lines[-_LAST_LINES - 1 :]).strip("\n")

    def _read(self) -> None:
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self._descriptor, _READ_BYTES)
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._reading = False
        self._write(data)

    def _write(self, data: bytes, *, last: bool = False) -> None:
        self._pending += data
        end = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r")) + 1
        if last or len(self._pending) > _LONGEST_LINE_BYTES:
            end = len(self._pending)
        clean, self._pending = self._clean(self._pending[:end]), self._pending[end:]
        self._last = (self._last + clean)[-_LAST_BYTES:]
        if not clean or self._failed is not None:
            return
        try:
            with self._log.open("ab") as log:
                log.write(clean)
        except OSError as error:
            self._failed = error

    def _clean(self, text: bytes) -> bytes:
        text = _USER_INFO.sub(lambda found: (found[1] or found[2] + b":") + _HIDDEN + b"@", text)
        return self._secrets.sub(_HIDDEN, text) if self._secrets else text
