"""What every platform keeps of the `Platform` port."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.platforms import (
    BENCHES,
    SECONDS,
    Bench,
    ended,
    group,
    job,
    launch,
    one,
)
from xmcloud.core.errors import InvalidInput, Unavailable
from xmcloud.core.platforms import PlatformRefused, PlatformState, QuotaExceeded
from xmcloud.core.specs import Argument, Command

pytestmark = pytest.mark.anyio

FOREVER = "trap 'exit 0' TERM; sleep 1000 & wait"
TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
AWKWARD = (
    *("", " a  b ", "it's", '"', "é\n", "--x=\\"),
    *("$HOME", "$$", "$(ATTEMPT)", "$(NO)", "$$(ATTEMPT)", "$$$(NO)", "$(V3)"),
)


@pytest.fixture(params=BENCHES)
async def bench(
    request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Bench]:
    async with BENCHES[request.param](tmp_path) as bench:
        yield bench


async def test_a_job_runs_to_its_end(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("echo done")))
    assert submitted.state in (PlatformState.PENDING, PlatformState.RUNNING)
    told = await ended(bench.platform, submitted.name)
    assert (told.name, told.state, told.exit_code) == (submitted.name, PlatformState.SUCCEEDED, 0)
    assert told.url.startswith("https://")
    assert bench.printed(told.name) == "done\n"


async def test_a_failure_tells_the_exit_code_and_the_last_lines(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("echo out of milk; exit 3")))
    told = await ended(bench.platform, submitted.name)
    assert (told.state, told.exit_code) == (PlatformState.FAILED, 3)
    assert "out of milk" in told.message


async def test_arguments_and_environment_arrive_byte_for_byte(bench: Bench) -> None:
    names = [f"V{index}" for index in range(len(AWKWARD))]
    wanted = dict(zip(names, AWKWARD, strict=True))
    definition = one("").spec.evolve(arguments=tuple(Argument(value=word) for word in AWKWARD))
    image = definition.executable.evolve(command=(sys.executable, "-c", TELL))
    told = one("").evolve(spec=definition.evolve(executable=image, environment=wanted))
    submitted = await bench.platform.submit(launch("a", told))
    await ended(bench.platform, submitted.name)
    argv, environment = json.loads(bench.printed(submitted.name))
    assert argv == list(AWKWARD)
    assert {name: environment[name] for name in names} == wanted
    assert environment["ATTEMPT"] == "1"


async def test_the_attempt_comes_before_the_jobs_own_environment(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("echo $ATTEMPT", ATTEMPT="0")))
    await ended(bench.platform, submitted.name)
    assert bench.printed(submitted.name) == "1\n"


async def test_a_label_finds_what_was_submitted_with_it_the_oldest_first(bench: Bench) -> None:
    assert await bench.platform.find("a") == []
    names = [(await bench.platform.submit(launch("a", one("true")))).name for _ in range(2)]
    other = await bench.platform.submit(launch("a-2", one("true")))
    assert [found.name for found in await bench.platform.find("a")] == names
    assert [found.name for found in await bench.platform.find("a-2")] == [other.name]


async def test_what_is_found_ends_as_what_is_got(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("exit 4")))
    told = await ended(bench.platform, submitted.name)
    assert await bench.platform.find("a") == [told]


async def test_a_quota_refuses_for_now(bench: Bench) -> None:
    bench.refuse_for_quota()
    with pytest.raises(QuotaExceeded):
        await bench.platform.submit(launch("a", one("true")))
    assert await bench.platform.find("a") == []
    submitted = await bench.platform.submit(launch("a", one("true")))
    assert await bench.platform.get(submitted.name) is not None


async def test_a_refusal_is_for_good(bench: Bench) -> None:
    bench.refuse()
    with pytest.raises(PlatformRefused):
        await bench.platform.submit(launch("a", one("true")))
    assert await bench.platform.find("a") == []


async def test_a_submission_whose_answer_is_lost_is_found(bench: Bench) -> None:
    bench.lose_answer()
    with pytest.raises(Unavailable):
        await bench.platform.submit(launch("a", one("true")))
    [found] = await bench.platform.find("a")
    assert (await ended(bench.platform, found.name)).state is PlatformState.SUCCEEDED


async def test_a_submission_that_was_lost_is_not_found(bench: Bench) -> None:
    bench.lose_request()
    with pytest.raises(Unavailable):
        await bench.platform.submit(launch("a", one("true")))
    assert await bench.platform.find("a") == []


async def test_a_silent_platform_is_unavailable(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("true")))
    bench.fall_silent()
    for call in (
        bench.platform.submit(launch("b", one("true"))),
        bench.platform.find("a"),
        bench.platform.get(submitted.name),
        bench.platform.cancel(submitted.name),
    ):
        with pytest.raises(Unavailable):
            await call


async def test_a_job_that_is_not_there_is_none_and_needs_no_cancel(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("true")))
    for missing in (f"{submitted.name}0", "nonsense", ""):
        assert await bench.platform.get(missing) is None
        await bench.platform.cancel(missing)


async def test_a_running_job_is_cancelled(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one(f"echo up; {FOREVER}")))
    await printing(bench, submitted.name, "up\n")
    await bench.platform.cancel(submitted.name)
    await bench.platform.cancel(submitted.name)
    assert (await ended(bench.platform, submitted.name)).state is PlatformState.CANCELLED


async def test_a_waiting_job_is_cancelled(bench: Bench) -> None:
    bench.hold()
    submitted = await bench.platform.submit(launch("a", one("true")))
    told = await bench.platform.get(submitted.name)
    assert told is not None
    assert told.state is PlatformState.PENDING
    await bench.platform.cancel(submitted.name)
    assert (await ended(bench.platform, submitted.name)).state is PlatformState.CANCELLED


async def test_what_has_ended_stays_as_it_is_when_cancelled(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("true")))
    told = await ended(bench.platform, submitted.name)
    await bench.platform.cancel(submitted.name)
    assert await bench.platform.get(submitted.name) == told


async def test_a_job_whose_machines_go_is_preempted(bench: Bench) -> None:
    spot = one(f"echo up; {FOREVER}")
    spot = spot.evolve(spec=spot.spec.evolve(platform=bench.spot()))
    submitted = await bench.platform.submit(launch("a", spot))
    await printing(bench, submitted.name, "up\n")
    bench.preempt("a")
    assert (await ended(bench.platform, submitted.name)).state is PlatformState.PREEMPTED


async def test_a_job_that_the_platform_loses_is_broken(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one(FOREVER)))
    bench.lose("a")
    assert (await ended(bench.platform, submitted.name)).state is PlatformState.BROKEN


async def test_a_group_starts_together_and_ends_with_its_first_job(bench: Bench) -> None:
    both = group(job("chief", "echo chief"), job("worker", f"echo worker; {FOREVER}"))
    submitted = await bench.platform.submit(launch("a", *both))
    told = await ended(bench.platform, submitted.name)
    assert told.state is PlatformState.SUCCEEDED
    assert bench.printed(told.name) == "chief\n"


async def test_a_group_fails_with_any_of_its_jobs(bench: Bench) -> None:
    both = group(job("chief", FOREVER), job("worker", "exit 5"))
    submitted = await bench.platform.submit(launch("a", *both))
    told = await ended(bench.platform, submitted.name)
    assert (told.state, told.exit_code) == (PlatformState.FAILED, 5)


async def test_events_name_the_job_that_changed(bench: Bench) -> None:
    submitted = await bench.platform.submit(launch("a", one("true")))
    await ended(bench.platform, submitted.name)
    assert {bench.platform.event(body) for body in bench.events} == {submitted.name}


@pytest.mark.parametrize("body", ["", "{}", "[]", "nonsense", '{"resource": {"type": "other"}}'])
async def test_other_events_name_no_job(bench: Bench, body: str) -> None:
    assert bench.platform.event(body) is None


async def test_only_images_run_there(bench: Bench) -> None:
    image = one("true")
    bench.platform.check([image])
    command = image.spec.evolve(executable=Command(command=("true",)))
    with pytest.raises(InvalidInput, match=r"executable\.kind"):
        bench.platform.check([image.evolve(spec=command)])


async def printing(bench: Bench, name: str, text: str) -> None:
    """Returns when the job has written just that."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                if bench.printed(name) == text:
                    return
            except FileNotFoundError:
                pass
            await asyncio.sleep(0.02)
