import pytest

from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.archives.sizes import archive_limit, largest, shown


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("", 1024**3), ("0", 0), ("12345", 12345), ("2GiB", 2 * 1024**3), ("1.5 gib", 3 * 2**29),
        ("100MB", 100_000_000), ("7kB", 7000), ("1TB", 10**12), ("5b", 5),
    ],
)  # fmt: skip
def test_the_limit(text: str, bytes_: int) -> None:
    assert archive_limit({"XMCLOUD_ARCHIVE_LIMIT": text}) == bytes_
    assert archive_limit({}) == 1024**3


@pytest.mark.parametrize("text", ["much", "-1", "1e9", "2 gigs", "GiB", "1 2"])
def test_a_limit_that_is_none(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"XMCLOUD_ARCHIVE_LIMIT.*2GiB"):
        archive_limit({"XMCLOUD_ARCHIVE_LIMIT": text})


def test_the_largest() -> None:
    sizes = {"a/x": 50, "a/y": 40, "b/c/d": 70, "e": 10, "f": 9, "g/": 0}
    assert largest(sizes) == "a/ (90 bytes), b/c/d (70 bytes), e (10 bytes)"
    assert largest({"dat": 5, "data/x": 9}) == "data/x (9 bytes), dat (5 bytes)"
    assert largest({"empty": 0}) == ""


def test_sizes_as_people_read_them() -> None:
    shown_sizes = [shown(size) for size in (999, 1000, 1_234_567, 1024**3, 5 * 10**12)]
    assert shown_sizes == ["999 bytes", "1 kB", "1.23 MB", "1.07 GB", "5 TB"]
