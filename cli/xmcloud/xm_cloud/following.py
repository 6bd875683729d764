"""Waits for jobs and shows meanwhile how they are doing."""

import queue
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Protocol, Self

from xmcloud.core.models import Job
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.tails import Lines, News, Tails
from xmcloud.xm_cloud.watcher import Watcher

LAST_OUTPUT_SECONDS = 5.0
"""How long the logs may be silent, once the jobs ended, before nothing more is shown."""


class View(Protocol):
    """What is shown; called by one thread only."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def changed(self, job: Job) -> None: ...

    def printed(self, job: Job, lines: Sequence[str]) -> None: ...


def view_for(jobs: Sequence[Job]) -> View:
    """A live table on a terminal, plain lines elsewhere; both on stderr."""
    if sys.stderr.isatty():
        from xmcloud.xm_cloud.progress import LiveView

        return LiveView(jobs)
    from xmcloud.xm_cloud.plain import PlainView

    return PlainView(jobs)


def follow(
    client: Client, watcher: Watcher, jobs: Sequence[Job], shown: Collection[str]
) -> list[Job]:
    """The jobs as they ended, in order; the output of those in `shown` is shown as it comes."""
    news: queue.SimpleQueue[News] = queue.SimpleQueue()
    wanted = {job.id for job in jobs}
    tails = Tails(client, news)
    ends = [watcher.ended(job.id) for job in jobs]
    for end in ends:
        end.add_done_callback(lambda _: news.put(None))
    unlisten = watcher.listen(lambda job: news.put(job) if job.id in wanted else None)
    try:
        with view_for(jobs) as view:
            _show(view, news, tails, ends, shown)
    finally:
        unlisten()
        tails.close()
    return [end.result() for end in ends]


def _show(
    view: View,
    news: "queue.SimpleQueue[News]",
    tails: Tails,
    ends: Sequence[Future[Job]],
    shown: Collection[str],
) -> None:
    while True:
        over = all(end.done() for end in ends)
        if over and not tails.busy and news.empty():
            return
        try:
            item = news.get(timeout=LAST_OUTPUT_SECONDS if over else None)
        except queue.Empty:
            return
        if isinstance(item, Lines):
            view.printed(item.job, item.lines)
        elif item is not None:
            view.changed(item)
            if item.id in shown:
                tails.follow(item)
