"""What every `Blobs` promises."""

import asyncio

import pytest

from xmcloud.core.errors import InvalidInput, NotFound
from xmcloud.core.ports import Blobs

pytestmark = pytest.mark.anyio


async def test_a_blob_comes_back_whole_or_in_parts(blobs: Blobs) -> None:
    data = bytes(range(256))
    await blobs.put("logs/job-1/0.log", data)
    key = "logs/job-1/0.log"
    assert await blobs.get(key) == data
    assert await blobs.get(key, 10) == data[10:]
    assert await blobs.get(key, 10, 20) == data[10:20]
    assert await blobs.get(key, 0, 1) == data[:1]
    assert await blobs.get(key, 250, 1000) == data[250:]


async def test_nothing_lies_beyond_the_end(blobs: Blobs) -> None:
    await blobs.put("a", b"123")
    await blobs.put("empty", b"")
    assert await blobs.get("a", 3) == b""
    assert await blobs.get("a", 10, 20) == b""
    assert await blobs.get("a", 2, 2) == b""
    assert await blobs.get("empty") == b""


async def test_put_replaces_the_whole_blob(blobs: Blobs) -> None:
    await blobs.put("a", b"longer than the next")
    await blobs.put("a", b"next")
    assert await blobs.get("a") == b"next"
    assert await blobs.list("") == [("a", 4)]


async def test_readers_see_the_old_or_the_new(blobs: Blobs) -> None:
    versions = [bytes([n]) * 200_000 for n in range(6)]
    await blobs.put("a", versions[0])

    async def write() -> None:
        for version in versions:
            await blobs.put("a", version)

    writing = asyncio.ensure_future(write())
    while not writing.done():
        assert await blobs.get("a") in versions
    await writing


@pytest.mark.parametrize("key", ["a", "a/b", "b", "logs"])
async def test_what_is_not_there_is_not_found(blobs: Blobs, key: str) -> None:
    await blobs.put("logs/a", b"")
    with pytest.raises(NotFound):
        await blobs.get(key)


@pytest.mark.parametrize("count", [1, 2, 32, 33, 70, 1100])
async def test_a_blob_is_composed_of_others_in_their_order(blobs: Blobs, count: int) -> None:
    pieces = [b"one-", b"", b"two-", b"three."]
    for number, piece in enumerate(pieces):
        await blobs.put(f"parts/x/{number}", piece)
    await blobs.put("whole", b"the old one, which is longer" * 1000)
    await blobs.compose("whole", [f"parts/x/{n % 4}" for n in range(count)])
    assert await blobs.get("whole") == b"".join(pieces[n % 4] for n in range(count))
    assert await blobs.get("whole", 2, 6) == b"".join(pieces[n % 4] for n in range(count))[2:6]
    kept = [(f"parts/x/{number}", len(piece)) for number, piece in enumerate(pieces)]
    assert await blobs.list("parts") == kept
    await blobs.delete("parts")
    assert [key for key, _ in await blobs.list("")] == ["whole"]


@pytest.mark.parametrize("missing", [0, 1, 40])
async def test_a_blob_is_not_composed_of_what_is_missing(blobs: Blobs, missing: int) -> None:
    await blobs.put("part", b"x")
    await blobs.put("whole", b"old")
    parts = ["part"] * 41
    parts[missing] = "nothing"
    with pytest.raises(NotFound):
        await blobs.compose("whole", parts)
    assert await blobs.get("whole") == b"old"
    assert [key for key, _ in await blobs.list("")] == ["part", "whole"]


async def test_a_blob_may_be_composed_of_itself(blobs: Blobs) -> None:
    await blobs.put("a", b"1")
    await blobs.compose("a", ["a", "a"])
    assert await blobs.get("a") == b"11"


async def test_list_matches_the_beginning_of_keys_in_order(blobs: Blobs) -> None:
    keys = ["a-b/x", "a.txt", "a/b", "a/b.c", "a/b/c", "ab", "b/a"]
    stored = [key for key in keys if key != "a/b"]
    for size, key in enumerate(stored):
        await blobs.put(key, b"x" * size)
    everything = [(key, size) for size, key in enumerate(stored)]
    for prefix in ("", "a", "a/", "a/b", "a/b/", "a/b/c", "a/b.", "ab", "a-", "c", "b/a/c", "."):
        expected = [entry for entry in everything if entry[0].startswith(prefix)]
        assert await blobs.list(prefix) == expected, prefix
    assert everything == sorted(everything)


async def test_list_goes_on_after_a_key(blobs: Blobs) -> None:
    keys = ["a-b/x", "a.txt", "a/b.c", "a/b/c", "a/b/d", "ab", "b/a"]
    for key in keys:
        await blobs.put(key, b"x")
    for after in ("", "a", "a/", "a/b/", "a/b/c", "a0", "b/a", "z"):
        expected = [key for key in keys if key > after]
        assert [key for key, _ in await blobs.list("", after)] == expected, after
        assert [key for key, _ in await blobs.list("", after, 2)] == expected[:2], after
    assert await blobs.list("a/", "a/b.c", 1) == [("a/b/c", 1)]


async def test_delete_removes_what_begins_so_and_nothing_else(blobs: Blobs) -> None:
    for key in ("logs/1/a", "logs/1/b", "logs/10/a", "logs/2/a"):
        await blobs.put(key, b"")
    for _ in range(2):
        await blobs.delete("logs/1/")
        assert [key for key, _ in await blobs.list("")] == ["logs/10/a", "logs/2/a"]
    await blobs.delete("logs/1")
    await blobs.put("logs/1/a", b"again")
    assert await blobs.list("logs") == [("logs/1/a", 5), ("logs/2/a", 0)]
    await blobs.delete("")
    assert await blobs.list("") == []


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "../a",
        "a/../b",
        "a/./b",
        "a b",
        "a\n",
        "é",
        "~a",
        "a\x00",
        "a\\b",
    ],
)
async def test_a_key_that_is_no_path_of_names_is_refused(blobs: Blobs, key: str) -> None:
    with pytest.raises(InvalidInput):
        await blobs.put(key, b"")
    with pytest.raises(InvalidInput):
        await blobs.get(key)
    await blobs.put("part", b"")
    for composed, part in ((key, "part"), ("whole", key)):
        with pytest.raises(InvalidInput):
            await blobs.compose(composed, [part])


@pytest.mark.parametrize("prefix", ["/", "../", "../a", "a/../", "a//", "~", "a\n"])
async def test_a_prefix_of_no_key_is_refused(blobs: Blobs, prefix: str) -> None:
    with pytest.raises(InvalidInput):
        await blobs.list(prefix)
    with pytest.raises(InvalidInput):
        await blobs.delete(prefix)
