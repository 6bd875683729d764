"""The builder in memory keeps what every builder promises, so that tests may build on it."""

import pytest

from tests.standins.cloud_builds import build
from tests.support.builder import MemoryBuilder
from xmcloud.core.errors import Unavailable
from xmcloud.core.platforms import BuilderState, PlatformRefused, QuotaExceeded

pytestmark = pytest.mark.anyio


@pytest.fixture
def builder() -> MemoryBuilder:
    return MemoryBuilder()


async def test_what_was_submitted_is_found_by_its_try_and_by_its_name(
    builder: MemoryBuilder,
) -> None:
    jobs = [await builder.submit(build()) for _ in range(3)]
    assert jobs[0].state is BuilderState.WAITING
    assert jobs[0].url
    assert await builder.get(jobs[0].name) == jobs[0]
    assert await builder.find(build()) == jobs[0]
    assert await builder.find(build(tries=2)) is None
    assert await builder.find(build(name="other")) is None


async def test_what_is_not_there_is_not_found_and_not_cancelled(builder: MemoryBuilder) -> None:
    for name in ("nonsense", ""):
        assert await builder.get(name) is None
        await builder.cancel(name)


async def test_a_build_is_cancelled_once_and_what_has_ended_stays(builder: MemoryBuilder) -> None:
    first, second = [await builder.submit(build()) for _ in range(2)]
    for _ in range(2):
        await builder.cancel(first.name)
        assert builder.state(first.name) is BuilderState.CANCELLED
    event = builder.becomes(second.name, BuilderState.SUCCEEDED, image="image@sha256:1")
    await builder.cancel(second.name)
    done = await builder.get(second.name)
    assert done is not None
    assert (done.state, done.image) == (BuilderState.SUCCEEDED, "image@sha256:1")
    assert builder.event(event) == second.name
    for other in ("", "not json", "[]", "{}"):
        assert builder.event(other) is None


async def test_refusals_are_told_apart_and_make_nothing(builder: MemoryBuilder) -> None:
    failures = {
        "quota": QuotaExceeded,
        "refused": PlatformRefused,
        "lost_requests": Unavailable,
    }
    for mishap, error in failures.items():
        setattr(builder.mishaps, mishap, 1)
        with pytest.raises(error):
            await builder.submit(build())
        assert await builder.find(build()) is None


async def test_a_submission_that_failed_may_have_taken_effect(builder: MemoryBuilder) -> None:
    builder.mishaps.lost_answers = 1
    with pytest.raises(Unavailable):
        await builder.submit(build())
    assert await builder.find(build()) is not None


async def test_a_service_that_is_gone_is_unavailable(builder: MemoryBuilder) -> None:
    builder.mishaps.silent = True
    calls = (
        builder.submit(build()),
        builder.find(build()),
        builder.get("builds/0"),
        builder.cancel("builds/0"),
    )
    for call in calls:
        with pytest.raises(Unavailable):
            await call
