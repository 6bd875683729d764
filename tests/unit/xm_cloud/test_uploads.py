"""What goes up, what does not, and what is told of it."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.support.blobs import MemoryBlobs
from xmcloud.core.blobs import PART_LIMIT, PARTS_LIMIT
from xmcloud.core.errors import InvalidInput, TooLarge
from xmcloud.xm_cloud.archives.uploads import PART_BYTES, Sent, upload, upload_folder

LARGE = b"".join(bytes([n]) * PART_BYTES for n in range(3)) + b"end"


def clock(*times: float) -> Iterator[float]:
    yield from times
    yield from count(times[-1])


@pytest.mark.parametrize("data", [b"", b"small", b"x" * PART_BYTES], ids=len)
def test_what_fits_in_a_part_goes_up_in_one_request(tmp_path: Path, data: bytes) -> None:
    blobs, path = MemoryBlobs(), tmp_path / "file"
    path.write_bytes(data)
    assert upload(blobs, "The file", path) == hashlib.sha256(data).hexdigest()
    assert upload(blobs, "The bytes", data) == hashlib.sha256(data).hexdigest()
    assert list(blobs.blobs.values()) == [data]
    assert blobs.puts == 1


def test_what_is_large_goes_up_in_parts(tmp_path: Path) -> None:
    blobs, path = MemoryBlobs(), tmp_path / "file"
    path.write_bytes(LARGE)
    assert blobs.blobs[upload(blobs, "The file", path)] == LARGE
    assert blobs.puts == 4
    assert PART_BYTES <= PART_LIMIT


def test_the_same_part_goes_up_once() -> None:
    blobs = MemoryBlobs()
    data = b"x" * (3 * PART_BYTES)
    assert blobs.blobs[upload(blobs, "The bytes", data)] == data
    assert blobs.puts == 1


class Interrupted(MemoryBlobs):
    """Breaks off after some parts."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.left = parts

    def put_part(self, digest: str, part: str, data: bytes, sent: Sent | None = None) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        super().put_part(digest, part, data, sent)


def test_an_upload_goes_on_where_it_broke_off() -> None:
    blobs = Interrupted(parts=2)
    with pytest.raises(KeyboardInterrupt):
        upload(blobs, "The bytes", LARGE)
    blobs.left = 2
    digest = upload(blobs, "The bytes", LARGE)
    assert (blobs.left, blobs.blobs[digest]) == (0, LARGE)


def test_progress_is_told_after_a_second() -> None:
    told: list[tuple[int, int]] = []
    times = clock(0.0, 0.5, 1.0)
    upload(MemoryBlobs(), "x", LARGE, lambda *p: told.append(p), now=lambda: next(times))
    size = len(LARGE)
    assert told == [(2 * PART_BYTES, size), (3 * PART_BYTES, size), (size, size)]


def test_what_is_quick_is_not_told() -> None:
    told: list[tuple[int, int]] = []
    upload(MemoryBlobs(), "x", LARGE, lambda *p: told.append(p), now=lambda: 7.0)
    assert told == []


class Bodies(MemoryBlobs):
    """Tells of each body when half of it is sent."""

    def put_blob(self, digest: str, data: bytes, sent: Sent | None = None) -> None:
        assert sent is not None
        sent(len(data) // 2)

    def put_part(self, digest: str, part: str, data: bytes, sent: Sent | None = None) -> None:
        self.put_blob(digest, data, sent)

    def complete_blob(self, digest: str, parts: Sequence[str]) -> None:
        assert len(parts) == 2


def test_progress_is_told_within_a_body() -> None:
    told: list[int] = []
    for data in (b"1234", LARGE[:PART_BYTES] + b"1234"):
        times = clock(0.0, 1.0)
        upload(Bodies(), "x", data, lambda *p: told.append(p[0]), now=lambda: next(times))  # noqa: B023
    assert told == [2, PART_BYTES // 2, PART_BYTES, PART_BYTES + 2, PART_BYTES + 4]


def test_a_file_of_more_than_all_parts_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(PARTS_LIMIT * PART_BYTES + 1)
    with pytest.raises(TooLarge, match="The program has"):
        upload(MemoryBlobs(), "The program", tmp_path / "huge")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        upload(MemoryBlobs(), "The program", tmp_path / "missing")


def test_the_same_folder_goes_up_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    blobs = MemoryBlobs()
    (tmp_path / "a.py").write_text("1")
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(lambda _: upload_folder(blobs, tmp_path), range(32)))
    assert list(blobs.blobs) == list(digests)
    assert blobs.puts == 1
