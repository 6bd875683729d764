"""How fast callers may ask, and what they are told when they ask faster."""

import pytest

from tests.functions.api import Api, problem
from xmcloud.core.errors import RateLimited
from xmcloud.core.identity import EVERYWHERE, Principal, Role
from xmcloud.core.member_protocol import NewToken, TokenMade
from xmcloud.functions.http.rates import GUESSES, Buckets, Rate, Rates

pytestmark = pytest.mark.anyio


class Seconds:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def api(recorded_api: Api) -> Api:
    return recorded_api


def test_a_burst_and_then_so_many_a_second(clock: Seconds) -> None:
    buckets = Buckets(Rate(2, 3), clock)
    assert [buckets.take("ann") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("bob") == 0
    clock.now += 0.5
    assert [buckets.take("ann") for _ in range(2)] == [0, 0.5]
    clock.now += 3600
    assert [buckets.take("ann") for _ in range(4)] == [0, 0, 0, 0.5]


def test_the_least_recently_used_are_forgotten(clock: Seconds) -> None:
    buckets = Buckets(Rate(1, 2), clock, size=2)
    for name in ("ann", "bob", "ann", "cleo"):
        assert buckets.take(name) == 0
    assert len(buckets) == 2
    assert buckets.take("ann") == 1
    assert [buckets.take("bob") for _ in range(3)] == [0, 0, 1]


def admitted(rates: Rates, caller: Principal, tries: int = 100) -> int:
    """How many requests are let in before the first that is not."""
    for number in range(tries):
        try:
            rates.admit(caller)
        except RateLimited:
            return number
    return tries


def test_who_runs_workers_may_ask_more_and_an_owner_what_he_likes(clock: Seconds) -> None:
    rates = Rates(Rate(5, 4), clock=clock)
    assert admitted(rates, Principal("ann", {"vision": Role.ADMIN})) == 4
    assert admitted(rates, Principal("vm", {EVERYWHERE: Role.WORKER})) == 40
    assert admitted(rates, Principal("op", {EVERYWHERE: Role.OPERATOR})) == 40
    assert admitted(rates, Principal.owning()) == 100
    assert admitted(Rates(None), Principal("ann")) == 100


async def test_who_asks_too_fast_is_told_when_to_go_on(api: Api, clock: Seconds) -> None:
    api.app.state.rates = Rates(Rate(0.5, 3), clock=clock)
    new = NewToken(name="ci", role=Role.VIEWER, days=1)
    token = (await api.post(TokenMade, "/projects/default/tokens", new, 201)).token
    mine = {"Authorization": f"Bearer {token}"}
    for _ in range(3):
        await api.call("GET", "/me", headers=mine)
    response = await api.call("GET", "/me", status=429, headers=mine)
    found = problem(response)
    assert found.type == "urn:xmcloud:problem:rate-limited"
    assert found.detail == "Too many requests of token:ci."
    assert response.headers["retry-after"] == "2"
    await api.call("GET", "/me")
    clock.now += 2
    await api.call("GET", "/me", headers=mine)


@pytest.fixture
def wrong() -> dict[str, str]:
    return {"Authorization": "Bearer xmc_aaaaaaaaaaaaaaaa_" + "A" * 43}


@pytest.mark.parametrize("path", ["/me", "/attempts/aaaaaaaaaaaaaaaa/1/reports"])
async def test_who_guesses_tokens_is_told_to_go_slow_and_nobody_else(
    api: Api, clock: Seconds, wrong: dict[str, str], path: str
) -> None:
    api.app.state.rates = Rates(clock=clock)
    method = "GET" if path == "/me" else "POST"
    for _ in range(int(GUESSES.burst)):
        await api.call(method, path, {}, status=401, headers=wrong)
    response = await api.call(method, path, {}, status=429, headers=wrong)
    assert response.headers["retry-after"] == "1"
    await api.call("GET", "/me")
    clock.now += 1
    await api.call(method, path, {}, status=401, headers=wrong)


async def test_behind_a_proxy_the_address_is_what_that_appended(
    api: Api, clock: Seconds, wrong: dict[str, str]
) -> None:
    api.app.state.rates = Rates(clock=clock, proxied=True)
    for number in range(int(GUESSES.burst)):
        headers = {**wrong, "X-Forwarded-For": f"10.0.0.{number}, 203.0.113.9"}
        await api.call("GET", "/me", status=401, headers=headers)
    told = {**wrong, "X-Forwarded-For": "203.0.113.9"}
    found = problem(await api.call("GET", "/me", status=429, headers=told))
    assert found.detail == "Too many requests of 203.0.113.9."
    other = {**wrong, "X-Forwarded-For": "203.0.113.9, 203.0.113.10"}
    await api.call("GET", "/me", status=401, headers=other)


async def test_without_a_proxy_nobody_chooses_his_address(
    api: Api, clock: Seconds, wrong: dict[str, str]
) -> None:
    api.app.state.rates = Rates(clock=clock)
    for number in range(int(GUESSES.burst)):
        headers = {**wrong, "X-Forwarded-For": f"10.0.0.{number}"}
        await api.call("GET", "/me", status=401, headers=headers)
    headers = {**wrong, "X-Forwarded-For": "10.9.9.9"}
    await api.call("GET", "/me", status=429, headers=headers)
