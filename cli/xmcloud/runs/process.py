"""Whether the script's process is still there, seen from one that is not its parent."""

import os
import signal

import psutil


class ScriptProcess:
    """The process of that id, and no later one."""

    def __init__(self, pid: int) -> None:
        self._asked = False
        try:
            self._process: psutil.Process | None = psutil.Process(pid)
        except psutil.NoSuchProcess:
            self._process = None

    def alive(self) -> bool:
        if self._process is None:
            return False
        try:
            return self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def stop(self) -> None:
        """Asks it to end, once, as a service manager does."""
        if self._process is not None and not self._asked and self.alive():
            self._asked = True
            os.kill(self._process.pid, signal.SIGTERM)
