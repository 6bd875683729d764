"""One job whose output goes to this terminal, and whose end is that of the program."""

import asyncio
from typing import BinaryIO, Never

from xmcloud.core.models import Outcome
from xmcloud.worker.news import Ending
from xmcloud.worker.run import Attempt

_LOOK_SECONDS = 0.1
_PIECE_BYTES = 1024 * 1024
_INTERRUPTED, _STOPPED = 130, 143


class Foreground:
    """Follows the attempt that it is told of."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._attempt: Attempt | None = None
        self._shown = 0
        self.exit_code = _INTERRUPTED

    def begun(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def ended(self, attempt: Attempt, ending: Ending) -> None:
        self._show(attempt)
        if ending.outcome is Outcome.COMPLETED:
            self.exit_code = 0
        elif ending.outcome is Outcome.FAILED:
            self.exit_code = ending.reason.exit_code or 1
        elif ending.outcome is Outcome.STOPPED:
            self.exit_code = _STOPPED

    async def run(self) -> Never:
        while True:
            if self._attempt is not None:
                self._show(self._attempt)
            await asyncio.sleep(_LOOK_SECONDS)

    def _show(self, attempt: Attempt) -> None:
        while piece := attempt.news.log.read(self._shown, _PIECE_BYTES):
            self._out.write(piece)
            self._shown += len(piece)
        self._out.flush()
