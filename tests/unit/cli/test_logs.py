"""What a log leaves on the screen."""

import tracemalloc

import pytest

from xmcloud.cli.logs import LogText
from xmcloud.core.screen import clean_line


def lines(data: bytes, colour: bool = False) -> list[str]:
    return "".join(LogText(colour).feed(data, final=True)).splitlines()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("10%\r50%\r100%", "100%"),
        ("10%\r50%\r", "50%"),
        ("windows\r", "windows"),
        ("100%\r\x1b[K", "100%"),
        ("\r\r\r", ""),
        ("tab\tstays", "tab\tstays"),
        ("12\b\b34", "34"),
        ("a\b\b\bz", "z"),
        ("10%\r20%\b\b\b", ""),
        ("10%\r\b", "10%"),
        ("bell\x07null\x00del\x7f", "bellnulldel"),
        ("title \x1b]0;rm -rf\x07after", "title after"),
        ("link \x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "link text"),
        ("open \x1b]52;c;never ended", "open "),
        ("clear\x1b[2J\x1b[1;1Hscreen", "clearscreen"),
        ("answer\x1b[6n\x1b[c\x1bZ", "answer"),
        ("device \x1bPq#0\x1b\\control", "device control"),
        ("c1 \x9b2J\x9d0;t\x9cend\x85", "c1 end"),
        ("charset\x1b(0\x1b%G", "charset"),
        ("cut \x1b[3", "cut "),
        ("cut \x1b", "cut "),
        ("nested \x1b\x1b[31mred", "nested red"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_a_line_without_colours(raw: str, shown: str) -> None:
    assert clean_line(raw, colour=False) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred", "\x1b[31mred\x1b[0m"),
        ("\x1b[38;5;9mred\x1b[2J", "\x1b[38;5;9mred\x1b[0m"),
        ("plain", "plain"),
        ("\x1b[?25lhidden", "hidden"),
        ("\x1b[>4;2mkeys", "keys"),
    ],
)
def test_colours_stay_where_they_can_be_shown(raw: str, shown: str) -> None:
    assert clean_line(raw, colour=True) == shown


def test_bad_bytes_are_replaced() -> None:
    assert lines(b"a\xffb\n\xc3") == ["a�b", "�"]


def test_characters_and_lines_may_come_in_pieces() -> None:
    text = LogText(colour=False)
    shown = [
        line for byte in "größe\r\n10%\r20%\nlast".encode() for line in text.feed(bytes([byte]))
    ]
    assert shown == ["größe\n", "20%\n"]
    assert text.unfinished == "last"
    assert text.feed(b"", final=True) == ["last\n"]
    assert text.unfinished == ""


def test_the_next_log_starts_clean_after_the_end_of_one() -> None:
    text = LogText(colour=False)
    assert text.feed(b"killed in the midd", final=True) == ["killed in the midd\n"]
    assert text.feed(b"again\n") == ["again\n"]


def test_the_state_of_a_progress_bar_shows_before_its_line_ends() -> None:
    text = LogText(colour=False)
    assert text.feed(b" 5%\r 10%\r") == []
    assert text.unfinished == " 10%"


def test_a_very_long_line_in_many_pieces_comes_whole() -> None:
    text = LogText(colour=False)
    parts = [part for _ in range(100) for part in text.feed(b"x" * 100_000)]
    assert all(len(part) < 1_200_000 for part in parts)
    assert "".join([*parts, *text.feed(b"\r\nnext\n")]) == "x" * 10_000_000 + "\nnext\n"


def test_a_bar_without_a_newline_is_kept_as_its_last_state() -> None:
    text = LogText(colour=False)
    tracemalloc.start()
    try:
        for n in range(100):
            assert text.feed(b"".join(b"\r%d %s" % (n, b"#" * 100) for _ in range(1000))) == []
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2_000_000
    assert text.unfinished == "99 " + "#" * 100


def test_a_sequence_is_not_parted() -> None:
    text = LogText(colour=False)
    piece = "ä\x1b[1m".encode() * 5000
    parts = [part for _ in range(100) for part in text.feed(piece)]
    assert len(parts) > 1
    assert "".join([*parts, *text.feed(b"", final=True)]) == "ä" * 500_000 + "\n"


def test_what_overwrites_such_a_line_gets_one_of_its_own() -> None:
    text = LogText(colour=False)
    parts = text.feed(b"x" * 2_000_000) + text.feed(b"yz\r50%\r100%\n")
    assert "".join(parts) == "x" * 2_000_000 + "yz\n100%\n"
