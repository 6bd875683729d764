"""TensorBoard instances, of a service that speaks Vertex AI's own messages."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud import aiplatform_v1 as vertex_ai
from google.longrunning.operations_pb2 import Operation  # type: ignore[import-untyped]

from xmcloud.cloud import vertex
from xmcloud.cloud.vertex import Client, NoTensorboard
from xmcloud.local.home import Control, Home
from xmcloud.xm_cloud.client import Client as ControlPlane
from xmcloud.xm_cloud.planning.recorder import Recorder
from xmcloud.xm_cloud.shared import standing_in

PARENT = "projects/p/locations/europe-west4"
URL = "http://127.0.0.1:9"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("XMCLOUD_HOME", str(tmp_path))
    monkeypatch.delenv("XMCLOUD_URL", raising=False)
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    return Home(tmp_path)


@pytest.fixture
def launching(home: Home) -> Iterator[None]:
    """No dry run, and no rehearsal."""
    with ControlPlane(URL, "token") as client, standing_in(client):
        yield


class Boards:
    """The instances of a project, by the names they are shown by."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.refuses = False

    async def list(self, request: Any, context: Any) -> Any:
        if self.refuses:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not for you")
        assert request.parent == PARENT
        wanted = json.loads(request.filter.removeprefix("display_name="))
        found = [vertex_ai.Tensorboard(name=n) for n in filter(None, [self.names.get(wanted)])]
        return vertex_ai.ListTensorboardsResponse(tensorboards=found)

    async def create(self, request: Any, context: Any) -> Operation:
        assert request.parent == PARENT
        name = f"{PARENT}/tensorboards/{len(self.names) + 1}"
        self.names[request.tensorboard.display_name] = name
        operation = Operation(name=f"{name}/operations/1", done=True)
        operation.response.Pack(vertex_ai.Tensorboard.pb(vertex_ai.Tensorboard(name=name)))
        return operation


@asynccontextmanager
async def serving(boards: Boards) -> AsyncIterator[Client]:
    answers = {
        "ListTensorboards": grpc.unary_unary_rpc_method_handler(
            boards.list,
            vertex_ai.ListTensorboardsRequest.deserialize,
            vertex_ai.ListTensorboardsResponse.serialize,
        ),
        "CreateTensorboard": grpc.unary_unary_rpc_method_handler(
            boards.create,
            vertex_ai.CreateTensorboardRequest.deserialize,
            Operation.SerializeToString,
        ),
    }
    service = "google.cloud.aiplatform.v1.TensorboardService"
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, answers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Client("p", "europe-west4", endpoint=f"127.0.0.1:{port}")
    finally:
        await server.stop(grace=None)


@pytest.mark.usefixtures("launching")
def test_an_instance_is_made_once_and_found_after() -> None:
    async def story() -> None:
        boards = Boards()
        async with serving(boards) as client:
            first = await client.get_or_create_tensorboard('the "curves"')
            assert first == f"{PARENT}/tensorboards/1"
            assert await client.get_or_create_tensorboard('the "curves"') == first
            assert await client.get_or_create_tensorboard("others") != first
            assert list(boards.names) == ['the "curves"', "others"]

    asyncio.run(story())


@pytest.mark.usefixtures("launching")
def test_a_refusal_says_what_to_do() -> None:
    async def story() -> None:
        boards = Boards()
        boards.refuses = True
        async with serving(boards) as client:
            with pytest.raises(NoTensorboard, match=r"not for you.*use one by its name"):
                await client.get_or_create_tensorboard("curves")
        assert boards.names == {}

    asyncio.run(story())


@pytest.mark.usefixtures("launching")
def test_without_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(NoTensorboard, match="gcloud auth application-default login"):
        asyncio.run(Client().get_or_create_tensorboard("curves"))


def test_a_dry_run_asks_nobody(home: Home) -> None:
    with standing_in(Recorder({})):
        names = [asyncio.run(Client("p").get_or_create_tensorboard(n)) for n in ("a", "b", "a")]
    first, second, again = names
    assert first == again != second
    project, _, number = first.rpartition("/tensorboards/")
    assert project == "projects/p/locations/us-central1"
    assert number.isdecimal()


@pytest.mark.usefixtures("launching")
def test_a_rehearsal_asks_nobody(home: Home) -> None:
    home.announce(Control(URL, "embedded", rehearsed=True))
    name = asyncio.run(Client().get_or_create_tensorboard("curves"))
    assert name.startswith("projects/xmcloud-local/locations/us-central1/tensorboards/")


def test_the_default_client_is_the_one_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vertex, "_default", [])
    assert vertex.get_default_client() is vertex.get_default_client()
    other = Client("p")
    vertex.set_default_client(other)
    assert vertex.get_default_client() is other
