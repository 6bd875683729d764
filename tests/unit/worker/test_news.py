"""What is told of an attempt, until it was taken."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from xmcloud.core.models import Outcome, ReasonCode
from xmcloud.core.protocol import Problem
from xmcloud.core.worker_protocol import OUTPUT_LIMIT, Finished, Output, Report, Started
from xmcloud.worker.news import CHUNK_BYTES, News
from xmcloud.worker.reasons import ending

NOW = datetime(2030, 1, 1, tzinfo=UTC)
END = ending(Outcome.COMPLETED, ReasonCode.EXITED, "completed", exit_code=0)
OVER = Problem(type="stale-fence", title="", status=409, detail="over")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


@pytest.fixture
def refusals() -> list[Problem]:
    return []


@pytest.fixture
def news(log: Path, refusals: list[Problem]) -> News:
    return News("a" * 16, 1, log, refusals.append)


def output(reports: list[Report]) -> bytes:
    return b"".join(report.data for report in reports if isinstance(report, Output))


def test_nothing_is_told_before_anything_happened(news: News) -> None:
    assert news.collect(OUTPUT_LIMIT) == []
    assert not news.grown
    assert not news.urgent


def test_a_short_job_is_told_of_at_once(news: News, log: Path) -> None:
    log.write_bytes(b"hello\n")
    news.started(NOW)
    news.finished(END)
    kinds = [report.event for report in news.collect(OUTPUT_LIMIT)]
    assert kinds == ["started", "output", "finished"]


def test_what_was_not_taken_is_told_again_with_what_came_since(news: News, log: Path) -> None:
    news.started(NOW)
    log.write_bytes(b"one")
    first = news.collect(OUTPUT_LIMIT)
    log.write_bytes(b"one two")
    second = news.collect(OUTPUT_LIMIT)
    assert output(first) == b"one"
    assert output(second) == b"one two"
    assert isinstance(second[0], Started)


def test_what_was_taken_is_not_told_again(news: News, log: Path) -> None:
    news.started(NOW)
    log.write_bytes(b"one")
    for report in news.collect(OUTPUT_LIMIT):
        news.taken(report)
    assert news.collect(OUTPUT_LIMIT) == []
    log.write_bytes(b"one two")
    (more,) = news.collect(OUTPUT_LIMIT)
    assert isinstance(more, Output)
    assert (more.offset, more.data) == (3, b" two")


def test_a_long_log_goes_in_pieces_and_the_end_comes_last(news: News, log: Path) -> None:
    everything = bytes(range(256)) * (3 * CHUNK_BYTES // 256 + 1)
    log.write_bytes(everything)
    news.finished(END)
    told = b""
    while not news.closed.is_set():
        reports = news.collect(2 * CHUNK_BYTES)
        sizes = [len(report.data) for report in reports if isinstance(report, Output)]
        assert max(sizes) <= CHUNK_BYTES
        assert sum(sizes) <= 2 * CHUNK_BYTES
        told += output(reports)
        for report in reports:
            assert not isinstance(report, Finished) or told == everything
            news.taken(report)
    assert told == everything


def test_a_refusal_of_the_end_is_no_news(news: News, refusals: list[Problem]) -> None:
    """As when it is told again, since the answer got lost."""
    news.finished(END)
    news.refused(OVER)
    assert news.closed.is_set()
    assert refusals == []


def test_an_end_that_is_not_acceptable_goes_again_without_its_results(news: News) -> None:
    news.finished(ending(Outcome.COMPLETED, ReasonCode.EXITED, "completed", results={"x": 1}))
    large = Problem(type="too-large", title="", status=413, detail="The results are too large.")
    news.objected(large)
    (end,) = news.collect(OUTPUT_LIMIT)
    assert isinstance(end, Finished)
    assert (end.outcome, end.results) == (Outcome.FAILED, {})
    assert "The results are too large. (completed)" in end.reason.message
    news.objected(large)
    assert news.closed.is_set()


def test_a_refusal_closes_and_is_passed_on(news: News, log: Path, refusals: list[Problem]) -> None:
    log.write_bytes(b"one")
    news.refused(OVER)
    assert news.closed.is_set()
    assert news.collect(OUTPUT_LIMIT) == []
    assert not news.urgent
    assert refusals == [OVER]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"", ""),
        (b"one\ntwo\n", "one\ntwo"),
        (b"10%\r50%\r100%\nend\r\n", "100%\nend"),
        (b"bad \xff byte\n", "bad \ufffd byte"),
        (b"".join(b"%d\n" % n for n in range(100)), "\n".join(map(str, range(80, 100)))),
        (b"x" * 10_000_000, "x" * 3000),
    ],
    ids=["empty", "lines", "progress", "bytes", "many", "one long line"],
)
def test_the_last_lines_are_for_people(news: News, log: Path, written: bytes, shown: str) -> None:
    log.write_bytes(written)
    assert news.last_lines() == shown
