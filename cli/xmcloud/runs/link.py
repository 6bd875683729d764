"""The script's end of the pipes to its reporter. Needs the standard library alone."""

import json
import os
import queue
import subprocess
import sys
import threading
from dataclasses import asdict
from typing import IO, Any

from xmcloud.runs.facts import Facts, files, modules

REPORTER = "xmcloud.runs.reporter"
GOODBYE_SECONDS = 5.0
"""How long a script that is over waits until all is told."""

# A child of the shell, not of the script: the script waits for its own children alone.
_DETACHED = ["/bin/sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh"]

Message = dict[str, Any]


def say(text: str) -> None:
    """One line for people, on stderr; a script without one is not disturbed."""
    try:
        sys.stderr.write(f"xmcloud: {text}\n")
    except (OSError, ValueError, AttributeError):
        return


class Link:
    """Tells the reporter what happens. No method but `goodbye` waits for it, and none raises."""

    def __init__(self, facts: Facts, to: IO[bytes], back: IO[bytes]) -> None:
        self._pid = os.getpid()
        self._to, self._back = to, back
        self._told: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._over = threading.Event()
        for work in (self._talk, self._listen):
            threading.Thread(target=work, name="xmcloud", daemon=True).start()
        self.tell("started", **asdict(facts))

    @classmethod
    def open(cls, facts: Facts) -> "Link":
        """Starts the reporter. Raises OSError."""
        if not sys.executable:
            raise OSError("the path of the interpreter is not known")
        process = subprocess.Popen(
            [*_DETACHED, sys.executable, "-P", "-W", "ignore", "-m", REPORTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        return cls(facts, process.stdin, process.stdout)

    def tell(self, kind: str, **about: Any) -> None:
        """Returns at once; a forked child of the script is not heard."""
        if os.getpid() == self._pid:
            self._told.put({"kind": kind, **about})

    def goodbye(self, seconds: float = GOODBYE_SECONDS) -> bool:
        """Whether the reporter has passed on all, or has given up; else it goes on alone."""
        if os.getpid() != self._pid:
            return False
        self._told.put(None)
        return self._over.wait(seconds)

    def _talk(self) -> None:
        try:
            while (message := self._told.get()) is not None:
                self._to.write(json.dumps(message).encode() + b"\n")
                self._to.flush()
            self._to.close()
        except (OSError, ValueError):
            return

    def _listen(self) -> None:
        message = None
        for line in self._back:
            message = json.loads(line)
            if message["kind"] == "say":
                say(message["text"])
            elif message["kind"] == "look":
                self.tell("imports", modules=modules(), files=files())
        if message is None:
            say("this run is not recorded: its reporter could not be started")
        self._over.set()
