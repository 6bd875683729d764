"""What is told of an attempt, until it was taken."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import JsonValue

from xmcloud.core.models import Execution, Outcome, ReasonCode, Statistics
from xmcloud.core.protocol import Problem
from xmcloud.core.worker_protocol import (
    OUTPUT_BLOCK,
    OUTPUT_LIMIT,
    Finished,
    Measured,
    Output,
    Report,
    Started,
)
from xmcloud.worker.news import News
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


def refuse(problem: Problem) -> None:
    raise AssertionError(problem)


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
    everything = bytes(n for n in range(256) if n != ord("\r")) * (3 * OUTPUT_BLOCK // 255 + 1)
    log.write_bytes(everything)
    news.finished(END)
    told = b""
    while not news.closed.is_set():
        reports = news.collect(2 * OUTPUT_BLOCK)
        sizes = [len(report.data) for report in reports if isinstance(report, Output)]
        assert max(sizes) <= OUTPUT_BLOCK
        assert sum(sizes) <= 2 * OUTPUT_BLOCK
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


def test_progress_bars_are_told_by_their_last_states(news: News, log: Path) -> None:
    log.write_bytes(b"begin\n1%\r2%\r100%\nend\n3%\r4%\r")
    news.finished(END)
    *reports, end = news.collect(OUTPUT_LIMIT)
    assert output(reports) == b"begin\n1%\r100%\nend\n4%"
    assert isinstance(end, Finished)


@pytest.mark.parametrize("written", [b"one\ntwo\n", b"0%\r1%\none\ntwo\n"])
def test_a_worker_that_comes_back_goes_on_exactly_there(log: Path, written: bytes) -> None:
    log.write_bytes(written)
    whole = output(News("a" * 16, 1, log, refuse).collect(OUTPUT_LIMIT))
    for taken in range(len(whole) + 1):
        news = News("a" * 16, 1, log, refuse)
        news.go_on(taken)
        news.finished(END)
        *reports, end = news.collect(OUTPUT_LIMIT)
        offsets = [report.offset for report in reports if isinstance(report, Output)]
        assert offsets[:1] == ([taken] if taken < len(whole) else [])
        assert output(reports) == whole[taken:]
        assert isinstance(end, Finished)


def test_the_end_is_there_for_a_worker_that_comes_back(news: News, log: Path) -> None:
    assert news.saved_ending() is None
    values: dict[str, JsonValue] = {"loss": 1.0, "steps": 3, "name": "ä", "none": [None]}
    end = ending(Outcome.COMPLETED, ReasonCode.EXITED, "completed", exit_code=0, results=values)
    news.finished(end)
    assert News("a" * 16, 1, log, refuse).saved_ending() == end
    assert [path.name for path in log.parent.iterdir()] == ["ending.json"]


def test_an_end_that_cannot_be_read_is_none(
    news: News, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log.with_name("ending.json").write_bytes(b"{")
    assert news.saved_ending() is None
    assert "ending.json cannot be read" in caplog.text


def test_an_end_that_cannot_be_saved_is_told_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    news = News("a" * 16, 1, tmp_path / "missing" / "output.log", refuse)
    news.finished(END)
    assert [report.event for report in news.collect(OUTPUT_LIMIT)] == ["finished"]
    assert "kept in memory alone" in caplog.text


def statistics(*cpu: float) -> Statistics:
    return Statistics(start=NOW, step_seconds=1.0, series={"cpu": cpu})


def test_the_newest_statistics_are_told_once(news: News) -> None:
    news.measured(statistics(1.0))
    news.measured(statistics(1.0, 2.0))
    (first,) = news.collect(OUTPUT_LIMIT)
    assert isinstance(first, Measured)
    assert first.statistics == statistics(1.0, 2.0)
    news.measured(statistics(1.0, 2.0, 3.0))
    news.taken(first)
    (second,) = news.collect(OUTPUT_LIMIT)
    news.taken(second)
    assert isinstance(second, Measured)
    assert second.statistics == statistics(1.0, 2.0, 3.0)
    assert news.collect(OUTPUT_LIMIT) == []
    assert not news.closed.is_set()


def test_what_really_ran_is_told_with_the_start(news: News) -> None:
    execution = Execution(argv=("python", "train.py"), host="ant")
    news.started(NOW, execution)
    (report,) = news.collect(OUTPUT_LIMIT)
    assert isinstance(report, Started)
    assert report.execution == execution


def take_all(news: News) -> list[tuple[int, int]]:
    """Where the pieces began and how long they were."""
    pieces = []
    while reports := news.collect(OUTPUT_LIMIT):
        for report in reports:
            news.taken(report)
            if isinstance(report, Output):
                pieces.append((report.offset, len(report.data)))
    return pieces


def test_pieces_end_where_blocks_do(news: News, log: Path) -> None:
    log.write_bytes(b"x" * 10)
    assert take_all(news) == [(0, 10)]
    log.write_bytes(b"x" * (2 * OUTPUT_BLOCK + 10))
    rest = OUTPUT_BLOCK - 10
    assert take_all(news) == [(10, rest), (OUTPUT_BLOCK, OUTPUT_BLOCK), (2 * OUTPUT_BLOCK, 10)]


@pytest.mark.parametrize("begins_with", [b"x", b"0%\r1%\n"], ids=["plain", "progress"])
def test_a_block_of_many_pieces_goes_again_as_a_whole(
    news: News, log: Path, begins_with: bytes
) -> None:
    log.write_bytes(begins_with)
    for _ in range(20):
        assert take_all(news)[0][1] < 10
        with log.open("ab") as file:
            file.write(b"line\n")
    with log.open("ab") as file:
        file.write(b"\n" * 2 * OUTPUT_BLOCK)
    first, second, third = take_all(news)
    assert (first, second) == ((0, OUTPUT_BLOCK), (OUTPUT_BLOCK, OUTPUT_BLOCK))
    assert third[0] == 2 * OUTPUT_BLOCK


def test_a_second_file_that_cannot_be_written_holds_the_end_back(
    small_disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log is on another disk here, which a link leads to."""
    (tmp_path / "output.log").write_bytes(b"0%\r1%\n" * 100_000)
    log = small_disk / "output.log"
    log.symlink_to(tmp_path / "output.log")
    filling = small_disk / "filling"
    with filling.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    news = News("a" * 16, 1, log, refuse)
    news.finished(END)
    assert output(news.collect(OUTPUT_LIMIT)) == b"0%"
    assert not news.urgent
    assert "kept and told later" in caplog.text
    filling.unlink()
    take_all(news)
    assert news.closed.is_set()
