"""Hears what becomes of an experiment's jobs, over one request at a time for all of them."""

import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future

from xmcloud.core.errors import Unavailable, XmcloudError
from xmcloud.core.models import Job
from xmcloud.core.protocol import Changes

POLL_SECONDS = 20.0
BREATH_SECONDS = 0.1
"""Between two requests: what changes meanwhile comes in one answer."""

PATIENCE = 120
"""Polls in a row that may fail, about 10 s apart, before the waiting ends."""

Poll = Callable[[str | None, float], Changes]


class Watcher:
    """Asks for changes while anybody waits, and only then."""

    def __init__(self, poll: Poll, sleep: Callable[[float], None] = time.sleep) -> None:
        self._poll = poll
        self._sleep = sleep
        self._lock = threading.Lock()
        self._cursor: str | None = None
        self._jobs: dict[str, Job] = {}
        self._waiting: dict[str, list[Future[Job]]] = defaultdict(list)
        self._listeners: list[Callable[[Job], None]] = []
        self._running = False

    def ended(self, job_id: str) -> Future[Job]:
        """The job once it is in a terminal state."""
        future: Future[Job] = Future()
        with self._lock:
            known = self._jobs.get(job_id)
            if known is not None and known.state.terminal:
                future.set_result(known)
                return future
            self._waiting[job_id].append(future)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="xmcloud-watcher", daemon=True).start()
        return future

    def listen(self, listener: Callable[[Job], None]) -> Callable[[], None]:
        """Calls the listener, in the watching thread, for what is known and each change.

        Returns what ends that.
        """
        with self._lock:
            known = list(self._jobs.values())
            self._listeners.append(listener)
        for job in known:
            listener(job)
        return lambda: self._listeners.remove(listener)

    def _run(self) -> None:
        failure: BaseException | None = RuntimeError("the watcher broke down")
        try:
            while self._anybody_waits():
                self._hear(self._changes())
                self._sleep(BREATH_SECONDS)
            failure = None
        except XmcloudError as error:
            failure = error
        finally:
            if failure is not None:
                self._give_up(failure)

    def _anybody_waits(self) -> bool:
        with self._lock:
            self._running = bool(self._waiting)
            return self._running

    def _changes(self) -> Changes:
        for attempt in range(PATIENCE):
            try:
                return self._poll(self._cursor, POLL_SECONDS)
            except Unavailable as error:
                if attempt == 0:
                    sys.stderr.write(f"xmcloud: {error.detail} The jobs go on; trying again.\n")
            self._sleep(min(10.0, 0.5 * 2**attempt) * random.uniform(0.5, 1.0))  # noqa: S311
        return self._poll(self._cursor, POLL_SECONDS)

    def _hear(self, changes: Changes) -> None:
        done: list[tuple[Future[Job], Job]] = []
        with self._lock:
            self._cursor = changes.cursor
            for job in changes.jobs:
                self._jobs[job.id] = job
                if job.state.terminal:
                    done += [(future, job) for future in self._waiting.pop(job.id, [])]
            listeners = list(self._listeners)
        for job in changes.jobs:
            for listener in listeners:
                listener(job)
        for future, job in done:
            future.set_result(job)

    def _give_up(self, failure: BaseException) -> None:
        with self._lock:
            self._running = False
            waiting = [future for each in self._waiting.values() for future in each]
            self._waiting.clear()
        for future in waiting:
            future.set_exception(failure)
