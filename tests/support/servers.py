"""Servers in processes of their own."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Server:
    """A running process, and the file that its output goes to."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text()

    def ready(self, answers: Callable[[], bool], seconds: float = 60) -> None:
        """Returns when it answers; fails when it ended before, or takes too long."""
        deadline = time.monotonic() + seconds
        while not answers():
            assert self.ended(0.05) is None, self.output
            assert time.monotonic() < deadline, self.output

    def ended(self, seconds: float) -> int | None:
        """Its exit code, None if it still runs after so many seconds."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, seconds: float = 30) -> int:
        """Its exit code after SIGTERM."""
        self.process.terminate()
        code = self.ended(seconds)
        assert code is not None, f"still runs {seconds} s after SIGTERM: {self.output}"
        return code


@contextmanager
def running(
    argv: Sequence[str], log: Path, environ: Mapping[str, str], cwd: Path | None = None
) -> Iterator[Server]:
    """The server; killed at the end if it still runs."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            cwd=cwd,
        )
    try:
        yield Server(process, log)
    finally:
        process.kill()
        process.wait()
