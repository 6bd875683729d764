"""The life of one build: queued, working, and how it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from google.cloud.devtools import cloudbuild_v1

from xmcloud.core.errors import XmcloudError
from xmcloud.core.ports import Clock
from xmcloud.local.standins.cloud_build_engine import Engine, NoEngine
from xmcloud.local.standins.cloud_build_log import BuildLog
from xmcloud.local.standins.cloud_build_races import first
from xmcloud.local.standins.cloud_build_steps import Failed, Read, work
from xmcloud.local.standins.faults import Faults

Write = Callable[[str, str, bytes], Awaitable[None]]
Emit = Callable[[str], Awaitable[None]]
Status: Any = cloudbuild_v1.Build.Status  # annotated as int


class Run:
    """`build` is the resource as it stands; every change of its status is told to `emit`."""

    def __init__(
        self,
        build: cloudbuild_v1.Build,
        *,
        read: Read,
        write: Write,
        emit: Emit,
        environ: Mapping[str, str],
        faults: Faults,
        clock: Clock,
    ) -> None:
        self.build = build
        self._read = read
        self._emit = emit
        self._engine = Engine(environ)
        self._faults = faults
        self._clock = clock
        bucket, _, folder = build.logs_bucket.removeprefix("gs://").partition("/")
        key = f"{folder}/log-{build.id}.txt".lstrip("/")
        self._log = BuildLog(lambda text: write(bucket, key, text), clock)
        self._cancelled = asyncio.Event()
        self._end: dict[str, Any] = {}

    @property
    def over(self) -> bool:
        return bool(self.build.finish_time)

    async def run(self, slots: asyncio.Semaphore) -> None:
        """Returns when it is over."""
        await self._tell()
        writing = asyncio.ensure_future(self._log.keep_writing())
        try:
            await self._until_over(slots)
        finally:
            self._log.close()
            await asyncio.wait({writing})
        await self._finish(writing)

    def cancel(self) -> None:
        self._cancelled.set()

    async def _until_over(self, slots: asyncio.Semaphore) -> None:
        work = self._when_free(slots)
        ended = await first(work, self._cancelled.wait(), self._waited_too_long())
        if ended == 1:
            self._log.line("CANCELLED\nERROR: context canceled")
            self._end = {"status": Status.CANCELLED}
        elif ended == 2:
            self._end = {"status": Status.EXPIRED, "status_detail": "expired in the queue"}

    async def _waited_too_long(self) -> None:
        ttl: Any = self.build.queue_ttl
        await self._clock.sleep(ttl.total_seconds())
        if self.build.status is not Status.QUEUED:
            await asyncio.Event().wait()

    async def _when_free(self, slots: asyncio.Semaphore) -> None:
        await self._faults.released()
        async with slots:
            self._log.line(f'starting build "{self.build.id}"\n')
            await self._change(status=Status.WORKING, start_time=self._clock.now())
            timeout: Any = self.build.timeout
            time_up = self._clock.sleep(timeout.total_seconds())
            broken = self._faults.ending(self.build.id, *self.build.tags)
            ended = await first(self._outcome(), time_up, broken)
            if ended == 1:
                self._log.line("TIMEOUT\nERROR: context deadline exceeded")
                self._end = {"status": Status.TIMEOUT}
            elif ended == 2:
                self._broken("an internal error")

    async def _outcome(self) -> None:
        try:
            results = await work(self.build, self._read, self._engine, self._log)
        except Failed as failure:
            self._end = {"status": Status.FAILURE, "failure_info": failure.info}
        except (NoEngine, XmcloudError, OSError) as error:
            self._broken(str(error))
        else:
            self._end = {"status": Status.SUCCESS, "results": results}

    def _broken(self, why: str) -> None:
        self._log.line(f"ERROR: {why}")
        self._end = {"status": Status.INTERNAL_ERROR, "status_detail": why}

    async def _finish(self, written: asyncio.Future[None]) -> None:
        try:
            await written
        except XmcloudError as error:
            self._broken(f"the log cannot be written: {error}")
        await self._change(**self._end, finish_time=self._clock.now())

    async def _change(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self.build, name, value)
        await self._tell()

    async def _tell(self) -> None:
        body: str = cloudbuild_v1.Build.to_json(self.build, use_integers_for_enums=False)
        for _ in range(1 + self._faults.plan.duplicates):
            with suppress(XmcloudError):  # then nobody hears of it
                await self._emit(body)
