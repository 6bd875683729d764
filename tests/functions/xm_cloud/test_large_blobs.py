"""Large content through the real API, up and down."""

import asyncio
import hashlib
import random
from pathlib import Path

import pytest

from tests.functions.xm_cloud.server import TOKEN
from xmcloud.core.errors import NotFound, XmcloudError
from xmcloud.functions.http.limits import BODY_LIMIT
from xmcloud.worker.client import ApiClient
from xmcloud.xm_cloud.archives.uploads import PART_BYTES, Sent, upload
from xmcloud.xm_cloud.client import Client


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of more than any request may have, no part of it like another."""
    path = tmp_path_factory.mktemp("large") / "file"
    path.write_bytes(random.Random(1).randbytes(BODY_LIMIT + PART_BYTES + 1))
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Breaking(Client):
    """Breaks off before the part with that number."""

    part = 3
    sent = 0

    def put_part(self, digest: str, part: str, data: bytes, sent: Sent | None = None) -> None:
        if self.sent == self.part:
            raise KeyboardInterrupt
        self.sent += 1
        super().put_part(digest, part, data, sent)


async def download(url: str, digest: str, target: Path) -> None:
    async with ApiClient.to(url, TOKEN) as worker:
        await worker.download(digest, target)


def test_a_large_blob_goes_up_and_comes_down(url: str, large: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    size = large.stat().st_size
    with Breaking(url, TOKEN) as client:
        with pytest.raises(KeyboardInterrupt):
            upload(client, "The file", large)
        assert len(client.parts(sha256(large))) == 3
        client.part, client.sent = 3, 0
        times = iter(range(10_000))
        digest = upload(
            client, "The file", large, lambda *p: told.append(p), now=lambda: next(times)
        )
        assert digest == sha256(large)
        assert client.sent == 3
        assert client.has_blob(digest)
        assert client.parts(digest) == set()
    assert told[0] == (PART_BYTES, size)
    assert told[-1] == (size, size)
    assert told == sorted(told)
    asyncio.run(download(url, digest, tmp_path / "down"))
    assert sha256(tmp_path / "down") == digest


def test_a_part_that_went_missing(client: Client) -> None:
    with pytest.raises(NotFound, match="Send the part"):
        client.complete_blob("0" * 64, ["1" * 64])
    with pytest.raises(XmcloudError, match="SHA-256"):
        client.put_part("0" * 64, "1" * 64, b"other")
