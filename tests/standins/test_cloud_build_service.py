"""What the stand-in for Cloud Build answers before anything is built."""

from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.devtools.cloudbuild_v1.services.cloud_build import (
    CloudBuildAsyncClient,
    transports,
)

from tests.standins.cloud_builds import (
    BUCKET,
    NO_ENGINE,
    PROJECT,
    CloudBuilds,
    build,
    cloud_builds,
)
from tests.support.clock import ManualClock
from xmcloud.adapters.gcp.build_requests import BuildRequests
from xmcloud.core.platforms import BuilderState
from xmcloud.local.standins.faults import Plan

pytestmark = pytest.mark.anyio

PARENT = f"projects/{PROJECT}/locations/global"
_STEP = {"name": "gcr.io/cloud-builders/docker", "args": ["build", "."]}


@pytest.fixture
async def held(tmp_path: Path, anyio_backend: str) -> AsyncIterator[CloudBuilds]:
    async with cloud_builds(tmp_path, clock=ManualClock()) as held:
        held.faults.plan = Plan(hold=True)
        yield held


@pytest.fixture
async def client(held: CloudBuilds) -> AsyncIterator[CloudBuildAsyncClient]:
    channel = grpc.aio.insecure_channel(held.address)
    client = CloudBuildAsyncClient(
        transport=transports.CloudBuildGrpcAsyncIOTransport(channel=channel)
    )
    yield client
    await channel.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": []}, "no build steps"),
        ({"steps": [_STEP] * 301}, "301 build steps"),
        ({"steps": [{**_STEP, "name": "debian"}]}, "step 0"),
        ({"steps": [{**_STEP, "args": ["run", "x"]}]}, "step 0"),
        ({"steps": [{**_STEP, "entrypoint": "bash"}]}, "step 0"),
        ({"steps": [{**_STEP, "args": ["build"] * 101}]}, "at most 100 args"),
        ({"steps": [{**_STEP, "args": ["build", "x" * 10_001]}]}, "10000 characters"),
        ({"steps": [{**_STEP, "args": ["build", "$_NAME"]}]}, "'_NAME' is not a valid"),
        ({"steps": [{**_STEP, "env": ["A"]}]}, "KEY=VALUE"),
        ({"tags": ["no spaces"]}, "invalid build tag"),
        ({"tags": ["t"] * 65}, "65 tags"),
        ({"images": ["x"] * 101}, "101 images"),
        ({"images": ["registry/Upper"]}, "could not parse reference"),
        ({"timeout": {"seconds": 86_401}}, "at most 24h"),
        ({"timeout": {"seconds": -1}}, "must be positive"),
        ({"source": {}}, "invalid source"),
        ({"logs_bucket": "bucket"}, "gs://BUCKET"),
        ({"options": {"logging": "NONE"}}, "GCS_ONLY"),
    ],
)
async def test_a_malformed_build_is_refused(
    client: CloudBuildAsyncClient, change: dict[str, Any], message: str
) -> None:
    good = BuildRequests(BUCKET, "us-docker.pkg.dev/p/xmcloud").build(build())
    request = {"parent": PARENT, "project_id": PROJECT, "build": {**deepcopy(good), **change}}
    with pytest.raises(exceptions.InvalidArgument, match=message):
        await client.create_build(request)


async def test_builds_run_as_the_account_that_was_named() -> None:
    assert BuildRequests(BUCKET, "r").build(build())["service_account"] == ""
    account = "projects/p/serviceAccounts/a@p.iam.gserviceaccount.com"
    made = BuildRequests(BUCKET, "r", account).build(build())
    assert made["service_account"] == account
    # Cloud Build refuses another account without one of these.
    assert made["logs_bucket"]
    assert made["options"]["logging"] == "GCS_ONLY"


async def test_what_looks_like_a_variable_reaches_the_step_as_it_is(held: CloudBuilds) -> None:
    for kaniko in (False, True):
        job = await held.builder.submit(build(dockerfile="$HOME/$$/Dockerfile", kaniko=kaniko))
        assert job.state is BuilderState.WAITING


async def test_builds_are_listed_page_by_page_the_newest_first(
    client: CloudBuildAsyncClient, held: CloudBuilds
) -> None:
    names = [(await held.builder.submit(build(tries=n))).name for n in range(1, 6)]
    request = {"parent": PARENT, "project_id": PROJECT, "page_size": 2}
    pager = await client.list_builds(request)
    listed = [each.id async for each in pager]
    assert listed == [name.rpartition("/")[2] for name in reversed(names)]
    with pytest.raises(exceptions.InvalidArgument, match="page token"):
        await client.list_builds({**request, "page_token": "nonsense"})


async def test_builds_are_filtered_by_tag_and_status(
    client: CloudBuildAsyncClient, held: CloudBuilds
) -> None:
    for n in (1, 2):
        name = (await held.builder.submit(build(tries=n))).name
    await held.builder.cancel(name)

    async def tags(asked: str) -> list[str]:
        request = {"parent": PARENT, "project_id": PROJECT, "filter": asked}
        return [tag async for each in await client.list_builds(request) for tag in each.tags]

    first, second = build().tag, build(tries=2).tag
    assert await tags("") == [second, first]
    assert await tags(f"tags={first}") == [first]
    assert await tags('status="QUEUED"') == [first]
    assert await tags(f'tags="{second}" AND status="CANCELLED"') == [second]
    assert await tags(f'tags="{first}" AND status="CANCELLED"') == []
    for wrong in ("create_time>1", "status=DONE", "tags="):
        with pytest.raises(exceptions.InvalidArgument, match="invalid list filter"):
            await tags(wrong)


async def test_other_projects_are_none_of_our_business(client: CloudBuildAsyncClient) -> None:
    with pytest.raises(exceptions.PermissionDenied):
        await client.list_builds({"parent": "projects/x/locations/global", "project_id": "x"})
    with pytest.raises(exceptions.InvalidArgument, match="parent"):
        await client.list_builds({"parent": "somewhere", "project_id": PROJECT})


async def test_what_is_over_cannot_be_cancelled(
    client: CloudBuildAsyncClient, held: CloudBuilds
) -> None:
    name = (await held.builder.submit(build())).name
    request = {"name": name, "project_id": PROJECT, "id": name.rpartition("/")[2]}
    await client.cancel_build(request)
    with pytest.raises(exceptions.FailedPrecondition):
        await client.cancel_build(request)


async def test_a_build_does_not_wait_for_ever(tmp_path: Path, anyio_backend: str) -> None:
    clock = ManualClock()
    async with cloud_builds(tmp_path, clock=clock) as builds:
        builds.faults.plan = Plan(hold=True)
        name = (await builds.builder.submit(build())).name
        await clock.sleeper()
        clock.advance(3600)
        job = await builds.until_over(name)
    assert builds.statuses(name) == ["QUEUED", "EXPIRED"]
    assert job.state is BuilderState.BROKEN
    assert "expired" in job.message


@pytest.mark.parametrize("environ", [NO_ENGINE, {"PATH": "/nowhere"}], ids=["engine", "program"])
async def test_without_an_engine_a_build_says_so(
    tmp_path: Path, anyio_backend: str, environ: dict[str, str]
) -> None:
    async with cloud_builds(tmp_path, environ=environ) as builds:
        job = await builds.until_over((await builds.builder.submit(build())).name)
    assert job.state is BuilderState.BROKEN
    assert "docker" in job.message.lower()
    assert job.message in job.tail


async def test_a_log_that_cannot_be_kept_breaks_the_build(
    tmp_path: Path, anyio_backend: str
) -> None:
    async with cloud_builds(tmp_path) as builds:
        builds.disk_full = True
        job = await builds.until_over((await builds.builder.submit(build())).name)
    assert job.state is BuilderState.BROKEN
    assert "log cannot be written" in job.message
    assert job.tail == ""
