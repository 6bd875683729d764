"""Measures the machine and the attempts on it, and says what is worth telling."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Never

from xmcloud.core.models import Statistics
from xmcloud.core.ports import Clock
from xmcloud.worker.statistics.meter import GpuReader, Meter, NoGpus, Rates, gpu_series
from xmcloud.worker.statistics.processes import Usage, all_usage, family
from xmcloud.worker.statistics.recording import Recording

INTERVAL_SECONDS = 5.0
TELL_SECONDS = 60.0
"""What changed meanwhile is told together: each telling replaces all that was told before."""

Key = tuple[str, int]
Pids = Callable[[], Iterable[int]]
"""The first processes of an attempt, of this machine's numbering; none when it has none now."""

logger = logging.getLogger("xmcloud.worker")


@dataclass
class _Watched:
    pids: Pids
    gpus: Sequence[int]
    tell: Callable[[Statistics], None]
    since: datetime
    told_at: datetime
    recording: Recording
    rates: Rates = field(default_factory=Rates)

    def measure(
        self,
        now: datetime,
        processes: Mapping[int, Usage],
        gpus: Sequence[tuple[float, float]],
    ) -> None:
        kin = family(self.pids(), processes).values()
        if not kin:
            return
        cpu = {"cpu-core-percent": 100 * sum(each.cpu_seconds for each in kin)}
        measured = {
            **self.rates.since_last(now.timestamp(), cpu),
            "memory-bytes": float(sum(each.memory_bytes for each in kin)),
            **gpu_series(gpus, self.gpus),
        }
        self.recording.add(now, measured)


class Sampler:
    """One for a worker, whatever sessions it has. `folder` is on the disk whose room is told of.

    Of the machine `cpu-percent` is a share of all its processors; of an attempt `cpu-core-percent`
    is one of a single processor, so that 250 are two and a half.
    """

    def __init__(
        self,
        clock: Clock,
        folder: Path,
        gpus: GpuReader | None = None,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._clock = clock
        self._meter = Meter(folder)
        self._gpus = gpus or NoGpus()
        self._interval = interval_seconds
        self._recording = Recording(interval_seconds)
        self._told_at: datetime | None = None
        self._watched: dict[Key, _Watched] = {}

    def watch(
        self,
        key: Key,
        pids: Pids,
        tell: Callable[[Statistics], None],
        gpus: Sequence[int] = (),
    ) -> None:
        """Measure what these processes use, all that hang below them, and these GPUs.

        `tell` gets all of it once a minute, and a last time when it is forgotten.
        """
        now = self._clock.now()
        recording = Recording(self._interval)
        self._watched[key] = _Watched(pids, gpus, tell, now, now, recording)

    def forget(self, key: Key) -> None:
        """The attempt is over. Idempotent; one shorter than the interval is not told of."""
        watched = self._watched.pop(key, None)
        if watched is None or self._clock.now() - watched.since <= self._step:
            return
        if found := watched.recording.statistics():
            watched.tell(found)

    def machine(self) -> Statistics | None:
        """What the machine used so far; None before it was measured."""
        return self._recording.statistics()

    def machine_due(self) -> Statistics | None:
        """The same when it was not asked for within the last minute, else None."""
        now = self._clock.now()
        if self._told_at is not None and now - self._told_at < timedelta(seconds=TELL_SECONDS):
            return None
        found = self.machine()
        if found is not None:
            self._told_at = now
        return found

    async def run(self) -> Never:
        """Measure at equal intervals; what took too long skips some."""
        due = self._clock.now()
        while True:
            await self.measure()
            now = self._clock.now()
            passed = max(0.0, (now - due).total_seconds())
            due += self._step * (passed // self._interval + 1)
            if due - now > self._step:  # the clock was set back
                due = now + self._step
            await self._clock.sleep((due - now).total_seconds())

    async def measure(self) -> None:
        """Once, and tell what is due. Reading is done aside, since a driver may take its time."""
        now = self._clock.now()
        watched = list(self._watched.values())
        try:
            machine, gpus, processes = await asyncio.to_thread(self._read, now, bool(watched))
        except OSError as error:
            logger.warning("cannot measure: %s", error)
            return
        self._recording.add(now, {**machine, **gpu_series(gpus, range(len(gpus)))})
        for each in watched:
            each.measure(now, processes, gpus)
        self._tell(now)

    def _read(
        self, now: datetime, any_watched: bool
    ) -> tuple[dict[str, float], Sequence[tuple[float, float]], dict[int, Usage]]:
        processes = all_usage() if any_watched else {}
        return self._meter.measure(now.timestamp()), self._gpus.sample(), processes

    def _tell(self, now: datetime) -> None:
        for watched in list(self._watched.values()):
            if now - watched.told_at < timedelta(seconds=TELL_SECONDS):
                continue
            if found := watched.recording.statistics():
                watched.told_at = now
                watched.tell(found)

    @property
    def _step(self) -> timedelta:
        return timedelta(seconds=self._interval)
