"""What the adapter makes of Vertex AI's places and answers."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.contracts.platforms import ended, launch, one, vertex
from xmcloud.adapters.gcp.vertex import VertexPlatform
from xmcloud.core.errors import Unavailable, XmcloudError
from xmcloud.core.models import Job
from xmcloud.core.platforms import PlatformRefused, PlatformState, QuotaExceeded
from xmcloud.core.specs import VertexOptions
from xmcloud.local.processes import LOOPBACK

pytestmark = pytest.mark.anyio
Code = grpc.StatusCode


def there(location: str) -> Job:
    train = one("true")
    options = VertexOptions(location=location)
    return train.evolve(spec=train.spec.evolve(platform=options))


async def test_a_label_is_looked_for_wherever_jobs_may_run(tmp_path: Path) -> None:
    async with vertex(tmp_path) as bench:
        names = [
            (await bench.platform.submit(launch("a", there(location)))).name
            for location in ("europe-west4", "", "europe-west4")
        ]
        assert [name.split("/")[3] for name in names] == [
            "europe-west4",
            "us-central1",
            "europe-west4",
        ]
        assert [found.name for found in await bench.platform.find("a")] == names
        assert (await ended(bench.platform, names[0])).state is PlatformState.SUCCEEDED


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.RESOURCE_EXHAUSTED, QuotaExceeded),
        (Code.INVALID_ARGUMENT, PlatformRefused),
        (Code.NOT_FOUND, PlatformRefused),
        (Code.PERMISSION_DENIED, PlatformRefused),
        (Code.FAILED_PRECONDITION, PlatformRefused),
        (Code.ABORTED, Unavailable),
        (Code.CANCELLED, Unavailable),
        (Code.DEADLINE_EXCEEDED, Unavailable),
        (Code.INTERNAL, Unavailable),
        (Code.UNAUTHENTICATED, Unavailable),
        (Code.UNAVAILABLE, Unavailable),
        (Code.UNKNOWN, Unavailable),
    ],
)
async def test_every_answer_to_a_submission(
    code: grpc.StatusCode, error: type[XmcloudError]
) -> None:
    async with answering(code) as (platform, calls):
        with pytest.raises(error, match="the reason"):
            await platform.submit(launch("a", one("true")))
        assert calls == ["/google.cloud.aiplatform.v1.JobService/CreateCustomJob"]


async def test_nobody_listens() -> None:
    platform = VertexPlatform("proj", ["us-central1"], "b", endpoint=f"{LOOPBACK}:1")
    with pytest.raises(Unavailable):
        await platform.submit(launch("a", one("true")))
    await platform.close()


@asynccontextmanager
async def answering(code: grpc.StatusCode) -> AsyncIterator[tuple[VertexPlatform, list[str]]]:
    """A service that answers each call so, and the calls that it got."""
    calls: list[str] = []

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> Any:
            calls.append(details.method)
            return grpc.unary_unary_rpc_method_handler(refuse)

    async def refuse(_: bytes, context: Any) -> None:
        await context.abort(code, "the reason")

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    platform = VertexPlatform("proj", ["us-central1"], "b", endpoint=f"{LOOPBACK}:{port}")
    yield platform, calls
    await platform.close()
    await server.stop(None)


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("xmcloud.adapters.gcp.vertex", "google.cloud.aiplatform_v1"),
        ("xmcloud.local", "grpc"),
        ("xmcloud.local.standins", "grpc"),
    ],
)
def test_what_is_heavy_is_loaded_where_it_is_used(module: str, heavy: str) -> None:
    program = f"import sys, {module}; print({heavy!r} in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert run.stdout == b"False\n"
