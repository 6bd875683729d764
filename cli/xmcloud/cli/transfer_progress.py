"""How far an export or an import is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from xmcloud.xm_cloud.transfer import Report


@contextmanager
def progress() -> Iterator[Report]:
    """A line on stderr while somebody looks."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    shown = sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not shown) as bar:
        task = bar.add_task("asking", total=None)

        def report(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report
