"""Where event files of TensorBoard are written by this process. Standard library alone."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from xmcloud.runs.parsers.loading import attach_to

_MODULES = ("tensorboard.summary.writer.event_file_writer", "tensorboardX.event_file_writer")
"""Of TensorBoard, which torch uses too, and of tensorboardX."""


def watch(found: Callable[[str], None]) -> None:
    """From now on; is told the folder of each writer, which may have several."""

    def attach(module: ModuleType) -> None:
        writer = getattr(module, "EventFileWriter", None)
        if writer is None:
            return
        begin = writer.__init__

        @functools.wraps(begin)
        def begun(self: Any, logdir: Any, *rest: Any, **named: Any) -> None:
            begin(self, logdir, *rest, **named)
            found(str(logdir))

        writer.__init__ = begun

    for name in _MODULES:
        attach_to(name, attach)
