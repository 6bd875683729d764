"""One conversation with the control plane for all who wait."""

import queue
import threading
from collections.abc import Iterator

import pytest

from tests.unit.xm_cloud.jobs import job
from xmcloud.core.errors import NotFound, Unavailable, XmcloudError
from xmcloud.core.models import Job, JobState
from xmcloud.core.protocol import Changes
from xmcloud.xm_cloud import watcher as module
from xmcloud.xm_cloud.watcher import Watcher

SECONDS = 20.0
FIRST, SECOND = job(1, JobState.COMPLETED), job(2, JobState.FAILED)


class Plane:
    """Answers a poll when the test has news; counts polls that overlap."""

    def __init__(self) -> None:
        self.news: queue.SimpleQueue[list[Job] | XmcloudError] = queue.SimpleQueue()
        self.cursors: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.overlaps = 0
        self._polled = 0
        self._one = threading.Lock()

    def poll(self, since: str | None, wait: float) -> Changes:
        self.overlaps += not self._one.acquire(blocking=False)
        try:
            self.cursors.put(since)
            news = self.news.get(timeout=SECONDS)
            if isinstance(news, XmcloudError):
                raise news
            self._polled += 1
            return Changes(jobs=news, cursor=str(self._polled))
        finally:
            self._one.release()


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def watcher(plane: Plane) -> Iterator[Watcher]:
    yield Watcher(plane.poll, sleep=lambda seconds: None)
    assert not [thread for thread in threading.enumerate() if thread.name == "xmcloud-watcher"]


def join() -> None:
    for thread in threading.enumerate():
        if thread.name == "xmcloud-watcher":
            thread.join(SECONDS)


def test_all_wait_on_one_poll_at_a_time(plane: Plane, watcher: Watcher) -> None:
    ends = [watcher.ended(job.id) for job in (FIRST, SECOND, FIRST)]
    plane.news.put([job(1, JobState.RUNNING), job(2)])
    plane.news.put([SECOND])
    assert ends[1].result(SECONDS) == SECOND
    assert not ends[0].done()
    plane.news.put([FIRST])
    assert [end.result(SECONDS) for end in ends] == [FIRST, SECOND, FIRST]
    assert [plane.cursors.get(timeout=SECONDS) for _ in range(3)] == [None, "1", "2"]
    assert plane.overlaps == 0
    join()


def test_nobody_polls_when_nobody_waits(plane: Plane, watcher: Watcher) -> None:
    plane.news.put([FIRST])
    assert watcher.ended(FIRST.id).result(SECONDS) == FIRST
    join()
    assert watcher.ended(FIRST.id).result(0) == FIRST
    assert plane.cursors.get(timeout=SECONDS) is None
    assert plane.cursors.empty()


def test_waiting_again_goes_on_from_the_last_cursor(plane: Plane, watcher: Watcher) -> None:
    plane.news.put([FIRST])
    watcher.ended(FIRST.id).result(SECONDS)
    join()
    plane.news.put([SECOND])
    watcher.ended(SECOND.id).result(SECONDS)
    assert [plane.cursors.get(timeout=SECONDS) for _ in range(2)] == [None, "1"]
    join()


def test_a_control_plane_that_is_away_is_asked_again(
    plane: Plane, watcher: Watcher, capsys: pytest.CaptureFixture[str]
) -> None:
    end = watcher.ended(FIRST.id)
    plane.news.put(Unavailable("It is away.", "Start it."))
    plane.news.put(Unavailable("It is away.", "Start it."))
    plane.news.put([FIRST])
    assert end.result(SECONDS) == FIRST
    assert capsys.readouterr().err == "xmcloud: It is away. The jobs go on; trying again.\n"
    join()


def test_one_that_stays_away_ends_the_waiting(
    plane: Plane, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 2)
    end = watcher.ended(FIRST.id)
    for _ in range(3):
        plane.news.put(Unavailable("It is away.", "Start it."))
    with pytest.raises(Unavailable):
        end.result(SECONDS)
    join()


def test_a_refusal_ends_the_waiting(plane: Plane, watcher: Watcher) -> None:
    end = watcher.ended(FIRST.id)
    plane.news.put(NotFound("experiment", "x"))
    with pytest.raises(NotFound):
        end.result(SECONDS)
    join()
    again = watcher.ended(FIRST.id)
    plane.news.put([FIRST])
    assert again.result(SECONDS) == FIRST
    join()


def test_listeners_hear_what_is_known_and_what_changes(plane: Plane, watcher: Watcher) -> None:
    plane.news.put([FIRST])
    watcher.ended(FIRST.id).result(SECONDS)
    join()
    heard: list[Job] = []
    stop = watcher.listen(heard.append)
    plane.news.put([job(2, JobState.RUNNING), SECOND])
    watcher.ended(SECOND.id).result(SECONDS)
    join()
    stop()
    assert heard == [FIRST, job(2, JobState.RUNNING), SECOND]
