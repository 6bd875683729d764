"""What the blobs over Cloud Storage do beyond the contract, on an emulator."""

import asyncio
import secrets

import pytest

from tests.emulator.proxy import NOBODY
from xmcloud.adapters.gcp.storage import GcsBlobs
from xmcloud.core.errors import Unavailable

pytestmark = [pytest.mark.anyio, pytest.mark.emulator]


async def test_the_bucket_is_made_once_on_the_emulator(gcp_project: str) -> None:
    bucket = f"made-{secrets.token_hex(8)}"
    pair = [GcsBlobs(bucket, gcp_project), GcsBlobs(bucket, gcp_project)]
    await asyncio.gather(*(blobs.put(f"{n}", b"x") for n, blobs in enumerate(pair)))
    for blobs in pair:
        assert await blobs.list("") == [("0", 1), ("1", 1)]
        await blobs.close()


async def test_a_blob_of_more_than_one_request(gcp_project: str) -> None:
    blobs = GcsBlobs(f"large-{secrets.token_hex(8)}", gcp_project)
    data = secrets.token_bytes(9 * 1024 * 1024)
    await blobs.put("large", data)
    assert await blobs.get("large") == data
    assert await blobs.get("large", 9 * 1024 * 1024 - 3) == data[-3:]
    await blobs.close()


async def test_a_bucket_that_does_not_answer_is_unavailable(
    gcp_project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{NOBODY}")
    blobs = GcsBlobs("nobody", gcp_project, deadline=0.2)
    for call in (blobs.put("a", b""), blobs.get("a"), blobs.list(""), blobs.delete("")):
        with pytest.raises(Unavailable):
            await call
    await blobs.close()
