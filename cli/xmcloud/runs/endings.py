"""How a script ends: what it raised, or the code it left with. Standard library alone."""

import atexit
import os
import re
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import ClassVar, NoReturn

Ended = Callable[[str, str, int | None], None]
"""Is told the outcome, a line about it, and the exit code where there is one."""

_CATCHES = re.compile(rb"except\b.*\bSystemExit\b")


class Leaving(SystemExit):
    """What `sys.exit` raises while a run is recorded: unlike its parent it can be watched."""

    watch: ClassVar[Callable[["Leaving"], None]] = staticmethod(lambda _: None)

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        Leaving.watch(self)


Leaving.__name__ = Leaving.__qualname__ = "SystemExit"


def leave(code: object = None) -> NoReturn:
    """Stands for `sys.exit`."""
    raise Leaving(code)


class Endings:
    """Watches the process from now on; tells once, in this process and not in forked ones."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._pid = os.getpid()
        self._told = False
        self._outcome: tuple[str, str, int | None] = ("completed", "exited with code 0", 0)
        self._leaving: weakref.ref[Leaving] | None = None
        self._code: object = None
        self._hook, sys.excepthook = sys.excepthook, self._raised
        Leaving.watch, sys.exit = self._leaves, leave
        _watch_main()
        if threading.current_thread() is threading.main_thread():
            self._watch_signals()
        atexit.register(self._at_exit)

    def _watch_signals(self) -> None:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)

    def _raised(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            self._outcome = ("stopped", "interrupted", None)
        else:
            last = "".join(traceback.format_exception_only(kind, error)).strip().splitlines()
            self._outcome = ("failed", " ".join(last)[-2000:] or kind.__name__, 1)
        self._hook(kind, error, trace)

    def _leaves(self, leaving: Leaving) -> None:
        if threading.current_thread() is threading.main_thread():
            self._code, self._leaving = leaving.code, weakref.ref(leaving, self._gone)

    def _gone(self, _: object) -> None:
        """Whoever caught it goes on; if nobody did, no frame is left."""
        if _has_caller():
            self._leaving = None

    def _terminated(self, number: int, _: FrameType | None) -> None:
        self._outcome = ("stopped", f"stopped by {signal.Signals(number).name}", None)
        self._tell()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _at_exit(self) -> None:
        if self._leaving is not None and self._outcome[0] == "completed":
            code = _exit_code(self._code)
            if code:
                said = f": {self._code}" if isinstance(self._code, str) else ""
                self._outcome = ("failed", f"exited with code {code}{said}"[:2000], code)
        self._tell()

    def _tell(self) -> None:
        if not self._told and os.getpid() == self._pid:
            self._told = True
            self._ended(*self._outcome)


def _watch_main() -> None:
    """`raise SystemExit(..)` in the script is seen too, unless the script also catches it."""
    main = sys.modules["__main__"]
    try:
        source = Path(getattr(main, "__file__", None) or os.devnull).read_bytes()
    except OSError:
        return
    if b"SystemExit" in source and not _CATCHES.search(source):
        vars(main).setdefault("SystemExit", Leaving)


def _has_caller() -> bool:
    """Of the one who calls."""
    try:
        sys._getframe(2)
    except ValueError:
        return False
    return True


def _exit_code(code: object) -> int:
    """As the interpreter has it."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1
