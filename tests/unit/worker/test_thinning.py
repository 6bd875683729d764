"""A log without the states that were overwritten: short, exact, and the same after a crash."""

import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcloud.core.screen import clean_line
from xmcloud.worker.redaction import JobLog
from xmcloud.worker.thinning import SHOW_SECONDS, Place, ThinLog, thinned


@dataclass
class Watch:
    """Seconds that pass when a test says so."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "output.log"


def write(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def told(thin: ThinLog, start: int = 0, *, final: bool = False, length: int = 4096) -> bytes:
    """Everything from there on that is given out now."""
    parts = b""
    thin.size()
    while data := thin.read(start + len(parts), length, final=final):
        assert len(data) <= length
        parts += data
    return parts


def screen(data: bytes) -> list[str]:
    return [clean_line(line, colour=False) for line in data.decode(errors="replace").split("\n")]


@pytest.mark.parametrize(
    ("written", "given"),
    [
        (b"plain\nlines\n", b"plain\nlines\n"),
        (b"10%\r20%\r100%\nnext\n", b"10%\r100%\nnext\n"),
        (b"\r10%\r20%\r100%", b"\r100%"),
        (b"windows\r\nlines\r\n", b"windows\r\nlines\r\n"),
        (b"10%\r20%\r100%\r\n\r\nx\r\n", b"10%\r100%\r\n\r\nx\r\n"),
        (b"a\r\nb\rc\rd\r\r\n", b"a\r\nb\rd\r\n"),
        (b"10%\r20%\r\x1b[K\n", b"10%\r20%\n"),
        (b"bad \xff\r20%\r\xff\xfe\n", b"bad \xff\r\xff\xfe\n"),
        (b"x\ry\n" + b"line\n" * 3 + b"1\r2\r3\n", b"x\ry\nline\nline\nline\n3\n"),
        (b"ends with\r", b"ends with\r"),
        (b"\n\n\r\n\r\r\n", b"\n\n\r\n\r\n"),
        (b"", b""),
    ],
)
def test_what_is_given_out_of_a_log_that_is_over(log: Path, written: bytes, given: bytes) -> None:
    log.write_bytes(written)
    thin = ThinLog(JobLog(log))
    assert told(thin, final=True) == given
    assert thin.ends_at(len(given))


def test_a_log_without_progress_bars_is_not_copied(log: Path) -> None:
    log.write_bytes(b"line\r\n" * 1000)
    assert told(ThinLog(JobLog(log)), final=True) == log.read_bytes()
    assert [path.name for path in log.parent.iterdir()] == ["output.log"]


def test_a_return_waits_for_what_follows(log: Path) -> None:
    log.write_bytes(b"line\r")
    thin = ThinLog(JobLog(log))
    assert told(thin) == b"line"
    assert thin.size() == 4
    write(log, b"\nnext\r")
    assert told(thin, 4) == b"\r\nnext"


def test_a_state_is_shown_now_and_then(log: Path, watch: Watch) -> None:
    log.write_bytes(b"0%\r1%")
    thin = ThinLog(JobLog(log), watch)
    assert told(thin) == b"0%\r1%"
    write(log, b"\r2%")
    assert told(thin, 5) == b""
    watch.seconds = SHOW_SECONDS
    write(log, b"\r3%\r")
    assert told(thin, 5) == b"\r3%"
    write(log, b"4%\r5%\ndone\n")
    assert told(thin, 8) == b"\r5%\ndone\n"


def test_a_state_that_was_shown_in_part_goes_on(log: Path, watch: Watch) -> None:
    log.write_bytes(b"\r\rLoad")
    thin = ThinLog(JobLog(log), watch)
    assert told(thin) == b"\rLoad"
    write(log, b"ing")
    watch.seconds = SHOW_SECONDS
    assert told(thin, 5) == b"ing"
    write(log, b" done\n")
    assert told(thin, 8) == b" done\n"


def test_the_last_state_is_shown_though_nothing_more_is_written(log: Path, watch: Watch) -> None:
    log.write_bytes(b"0%\r1%")
    thin = ThinLog(JobLog(log), watch)
    told(thin)
    write(log, b"\r2%")
    assert thin.size() == 5
    watch.seconds = SHOW_SECONDS
    assert thin.size() == 8


bits = b"\r", b"\n", b"\r\n", b"a", b"10%", b"\xc3\xa4", b"\xc3", b"\x1b[K", b"\b", b"\x1b]0;", b" "
lines = st.lists(st.sampled_from(bits), max_size=30).map(b"".join)


@given(pieces=st.lists(lines, max_size=8), data=st.data())
def test_a_screen_shows_the_same(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], data: st.DataObject
) -> None:
    """Whatever is shown when, and however often the worker is killed: never other bytes."""
    log = tmp_path_factory.mktemp("log") / "output.log"
    watch = Watch()
    thin = ThinLog(JobLog(log), watch)
    given_out = b""
    for piece in pieces:
        write(log, piece)
        if data.draw(st.booleans()):
            given_out += told(thin, len(given_out), length=data.draw(st.integers(1, 9)))
        if data.draw(st.booleans()):
            watch.seconds += SHOW_SECONDS
        if data.draw(st.booleans()):
            thin = ThinLog(JobLog(log), watch)
            assert told(thin)[: len(given_out)] == given_out
    given_out += told(thin, len(given_out), final=True)
    assert told(ThinLog(JobLog(log), watch), final=True) == given_out
    assert screen(given_out) == screen(log.read_bytes()) if log.exists() else given_out == b""


def test_what_was_written_without_a_record_is_written_again(log: Path, watch: Watch) -> None:
    log.write_bytes(b"0%\r1%\n")
    assert told(ThinLog(JobLog(log), watch)) == b"0%\r1%\n"
    write(log.with_suffix(".thin"), b"torn")
    write(log, b"2%\r3%\n")
    assert told(ThinLog(JobLog(log), watch)) == b"0%\r1%\n3%\n"


def test_a_second_file_without_a_record_counts_for_nothing(log: Path) -> None:
    log.write_bytes(b"0%\r1%\n")
    log.with_suffix(".thin").write_bytes(bytes(40))
    assert told(ThinLog(JobLog(log))) == b"0%\r1%\n"


@pytest.mark.parametrize(
    ("written", "most"),
    [
        (b"\r50%" * 2_000_000, 100),
        (b"\r" * 4_000_000, 100),
        (b"\r\x1b[K" * 400_000, 100),
        (b"0%\r" + b"x" * 10_000_000 + b"\n", 10_000_100),
        (b"0%\r1%\n" + b"0123456789 " * 2_000_000, 22_000_100),
        (b"0%\r1%\n" + b"0%\r100%\r\n" * 20_000, 120_100),
    ],
    ids=["bar", "returns", "erasures", "long line", "long line at the end", "many bars"],
)
def test_a_large_log_needs_little_memory(log: Path, written: bytes, most: int) -> None:
    log.write_bytes(written)
    shown = screen(written)
    del written
    thin, at = ThinLog(JobLog(log)), 0
    tracemalloc.start()
    try:
        with (log.parent / "told").open("wb") as told_bytes:
            while not thin.ends_at(at):
                thin.size()
                at += told_bytes.write(thin.read(at, 256 * 1024, final=True))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
    found = (log.parent / "told").read_bytes()
    assert len(found) <= most
    assert screen(found) == shown


def test_a_line_in_the_middle_is_left_until_it_ends() -> None:
    assert thinned(b"a\rb\nc\rd", Place.FRESH) == (b"b\n", 6, Place.FRESH)
    assert thinned(b"c\rd", Place.INSIDE) == (b"", 2, Place.AFTER)
    assert thinned(b"d\n", Place.AFTER) == (b"\rd\n", 2, Place.FRESH)
