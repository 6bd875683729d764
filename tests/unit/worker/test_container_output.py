"""The frames in which an engine tells what a container wrote."""

from struct import pack

import pytest

from xmcloud.worker.container_output import joined

PART = b"x" * 16384


def frame(stream: int, content: bytes) -> bytes:
    return pack(">BxxxL", stream, len(content)) + content


def content(*frames: bytes, size: int = 1 << 20) -> bytes:
    sent = b"".join(frames)
    return b"".join(joined(sent[at : at + size] for at in range(0, len(sent), size)))


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_they_are_joined_wherever_they_were_cut(size: int) -> None:
    frames = [frame(1, b"out\n"), frame(2, b"err\xff\n"), frame(1, b""), frame(1, b"10%\r")]
    assert content(*frames, size=size) == b"out\nerr\xff\n10%\r"


def test_the_end_of_a_line_that_was_kept_in_parts_is_added() -> None:
    assert content(frame(1, PART), frame(1, b"end"), frame(1, b"next\n")) == PART + b"end\nnext\n"
    assert content(frame(1, PART), frame(1, PART), frame(1, b"")) == PART + PART + b"\n"


def test_but_not_twice_or_in_another_stream() -> None:
    assert content(frame(1, PART), frame(1, b"end\n")) == PART + b"end\n"
    between = [frame(1, PART), frame(2, b"10%"), frame(1, b"end")]
    assert content(*between) == PART + b"10%end\n"


def test_a_frame_that_was_cut_off_is_left_out() -> None:
    assert content(frame(1, b"whole\n"), frame(1, b"half")[:-1]) == b"whole\n"
