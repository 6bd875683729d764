"""How a log appears while it is written."""

import io

import pytest

from xmcloud.cli.follow import Screen


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, *pieces: bytes) -> list[str]:
    """What was written after each piece."""
    screen = Screen(stream)
    written = []
    for piece in pieces:
        stream.seek(0)
        stream.truncate()
        screen.show(piece)
        written.append(stream.getvalue())
    return written


def test_a_file_gets_whole_lines_with_the_last_state_of_each() -> None:
    assert shown(io.StringIO(), b"5%\r", b"10%\r", b"\x1b[31m20%\nnext") == ["", "", "20%\n"]


def test_a_terminal_sees_the_unfinished_line_change_in_place() -> None:
    assert shown(_Terminal(), b"5%\r", b"10%\r", b"20%\nnext", b" line\n") == [
        "5%",
        "\r\x1b[K10%",
        "\r\x1b[K20%\nnext",
        "\r\x1b[Knext line\n",
    ]


def test_an_unfinished_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    first, second = shown(_Terminal(), b"\x1b[32m" + b"x" * 100, b"y\n")
    assert first == "x" * 19
    assert second == "\r\x1b[K\x1b[32m" + "x" * 100 + "y\x1b[0m\n"


def test_the_end_shows_a_line_without_a_newline() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.show(b"no newline", final=True)
    screen.show(b"another attempt\n")
    assert stream.getvalue() == "no newline\nanother attempt\n"
