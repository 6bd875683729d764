"""Faults are told over HTTP."""

from collections.abc import AsyncIterator

import httpx
import pytest

from xmcloud.local.processes import free_ports
from xmcloud.local.standins.faults import Faults, Plan, serve_faults

pytestmark = pytest.mark.anyio


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
async def http(faults: Faults, anyio_backend: str) -> AsyncIterator[httpx.AsyncClient]:
    [port] = free_ports(1)
    async with (
        serve_faults(port, {"vertex": faults}),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/faults") as client,
    ):
        yield client


async def test_a_plan_replaces_the_one_before(http: httpx.AsyncClient, faults: Faults) -> None:
    faults.plan = Plan(hold=True)
    answer = await http.put("/vertex", json={"quota": 2, "endings": {"*": "preempt"}})
    assert answer.status_code == 200
    assert faults.plan == Plan(quota=2, endings={"*": "preempt"})


async def test_what_is_left_can_be_read(http: httpx.AsyncClient, faults: Faults) -> None:
    faults.plan = Plan(quota=2)
    assert [faults.take("quota") for _ in range(2)] == [True, True]
    assert not faults.take("quota")
    assert (await http.get("/vertex")).json() == Plan().model_dump()


async def test_a_plan_is_taken_back(http: httpx.AsyncClient, faults: Faults) -> None:
    faults.plan = Plan(hold=True)
    await http.delete("/vertex")
    assert faults.plan == Plan()


@pytest.mark.parametrize("body", ['{"quotas": 1}', '{"quota": -1}', "{", '{"endings": {"a": "b"}}'])
async def test_a_wrong_plan_says_why(http: httpx.AsyncClient, faults: Faults, body: str) -> None:
    answer = await http.put("/vertex", content=body)
    assert answer.status_code == 422
    assert "validation error for Plan" in answer.json()["detail"]
    assert faults.plan == Plan()


async def test_an_unknown_name_tells_the_known(http: httpx.AsyncClient) -> None:
    answer = await http.put("/vertx", json={})
    assert (answer.status_code, answer.json()["detail"]) == (404, "There are faults of: vertex.")


async def test_an_ending_is_for_one_that_has_the_name(faults: Faults) -> None:
    faults.plan = Plan(endings={"a": "break", "*": "preempt"})
    assert await faults.ending("a", "b") == "break"
    assert await faults.ending("a", "b") == "preempt"
    assert faults.plan == Plan()
