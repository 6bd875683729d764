"""What a log leaves on the screen."""

import pytest

from xmcloud.cli.logs import LogText, clean_line


def lines(data: bytes, colour: bool = False) -> list[str]:
    return LogText(colour).feed(data, final=True)


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
    assert shown == ["größe", "20%"]
    assert text.unfinished == "last"
    assert text.feed(b"", final=True) == ["last"]
    assert text.unfinished == ""


def test_the_next_log_starts_clean_after_the_end_of_one() -> None:
    text = LogText(colour=False)
    assert text.feed(b"killed in the midd", final=True) == ["killed in the midd"]
    assert text.feed(b"again\n") == ["again"]


def test_the_state_of_a_progress_bar_shows_before_its_line_ends() -> None:
    text = LogText(colour=False)
    assert text.feed(b" 5%\r 10%\r") == []
    assert text.unfinished == " 10%"


def test_a_very_long_line_in_many_pieces_comes_whole() -> None:
    text = LogText(colour=False)
    for _ in range(100):
        assert text.feed(b"x" * 100_000) == []
    assert [len(line) for line in text.feed(b"\n")] == [10_000_000]
