"""Output on its way to a real store, over a connection that breaks everywhere."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.builders import spec, units
from tests.support.clock import ManualClock
from tests.support.planes import Rig, sqlite_rig
from xmcloud.core.control import experiments
from xmcloud.core.control.logs import keep_output, log_size, read_log
from xmcloud.core.models import Outcome, ReasonCode
from xmcloud.core.protocol import NewExperiment, Problem
from xmcloud.core.screen import clean_line
from xmcloud.core.worker_protocol import OUTPUT_BLOCK, OUTPUT_LIMIT, Output, Report
from xmcloud.worker.news import News
from xmcloud.worker.reasons import ending

pytestmark = pytest.mark.anyio
END = ending(Outcome.COMPLETED, ReasonCode.EXITED, "completed", exit_code=0)


class Line:
    """A job's log, its worker's news, and the way to the store."""

    def __init__(self, rig: Rig, job: str, log: Path) -> None:
        self.rig, self.job, self.log = rig, job, log
        self.now = 0.0
        self.news = self._news()

    def _news(self) -> News:
        return News(self.job, 1, self.log, _refuse, clock=lambda: self.now)

    def write(self, data: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(data)

    async def store(self, reports: list[Report]) -> None:
        for report in reports:
            if isinstance(report, Output):
                await keep_output(self.rig.plane, report)

    async def send(self) -> None:
        """A request that is answered."""
        reports = self.news.collect(OUTPUT_LIMIT)
        await self.store(reports)
        for report in reports:
            self.news.taken(report)

    async def killed(self) -> None:
        """The worker was, and is started again."""
        self.news = self._news()
        self.news.go_on(await log_size(self.rig.plane, self.job, 1))

    async def arrived(self) -> bytes:
        whole = b""
        while data := (await read_log(self.rig.plane, self.job, 1, len(whole), 0)).data:
            whole += data
        return whole

    async def end(self) -> bytes:
        self.news.finished(END)
        while not self.news.closed.is_set():
            await self.send()
        return await self.arrived()


def _refuse(problem: Problem) -> None:
    raise AssertionError(problem)


@pytest.fixture
async def line(tmp_path: Path) -> AsyncIterator[Line]:
    rig = sqlite_rig(tmp_path, ManualClock())
    experiment = await experiments.create_experiment(rig.plane, NewExperiment(title="x"), "key")
    (job,) = await experiments.add_units(rig.plane, experiment.id, units(spec()), "key")
    yield Line(rig, job.id, tmp_path / "output.log")
    await rig.close()


async def test_ten_minutes_without_connection_lose_and_repeat_nothing(line: Line) -> None:
    line.write(b"before\n")
    await line.send()
    for second in range(600):
        line.now += 1
        line.write(b"%d\n" % second * 200)
        if second % 10 == 0:
            assert line.news.collect(OUTPUT_LIMIT) != []
    assert await line.arrived() == b"before\n"
    line.write(b"after\n")
    assert await line.end() == line.log.read_bytes()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bars", [False, True], ids=["lines", "bars"])
async def test_whatever_breaks_the_output_is_exact(line: Line, seed: int, bars: bool) -> None:
    chance = random.Random(seed)
    pieces = [b"a line\n", b"\xc3\xa4", b"", b"windows\r\n", b"l" * 5000, b"x" * OUTPUT_BLOCK]
    pieces += [b"\r10%", b"\r20%\r", b"\r30%\n"] * 2 if bars else []
    told = b""
    for _ in range(60):
        line.now += chance.random()
        line.write(chance.choice(pieces))
        match chance.choice(["quiet", "send", "lost", "unanswered", "in part", "killed"]):
            case "send":
                await line.send()
            case "lost":
                line.news.collect(OUTPUT_LIMIT)
            case "unanswered":
                await line.store(line.news.collect(chance.choice([100, OUTPUT_LIMIT])))
            case "in part":
                reports = line.news.collect(OUTPUT_LIMIT)
                await line.store(chance.sample(reports, len(reports) // 2))
            case "killed":
                await line.killed()
        now = await line.arrived()
        assert told.startswith(now) or now.startswith(told)
        told = max(told, now, key=len)
    whole = await line.end()
    assert whole.startswith(told)
    if not bars:
        assert whole == line.log.read_bytes()
    assert _screen(whole) == _screen(line.log.read_bytes())


def _screen(data: bytes) -> list[str]:
    return [clean_line(text, colour=False) for text in data.decode(errors="replace").split("\n")]
