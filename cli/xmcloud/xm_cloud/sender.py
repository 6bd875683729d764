"""Sends units to the control plane, together where they come together."""

import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from xmcloud.core.errors import XmcloudError
from xmcloud.core.models import Job
from xmcloud.core.protocol import BATCH_LIMIT, NewUnit, NewUnits
from xmcloud.xm_cloud.grouping import by_unit

BATCH_BYTES = 2 * 1024 * 1024
Send = Callable[[NewUnits, str], list[Job]]


@dataclass(eq=False)
class Place:
    """A unit's place in the line; `jobs` are what the control plane made of it.

    Reserved, without a unit yet, it holds up those behind, so that they get later numbers. A key
    of its own makes a request of its own.
    """

    unit: NewUnit | None = None
    key: str | None = None
    size: int = 0
    promised: int | None = None
    jobs: Future[Sequence[Job]] = field(default_factory=Future)


class Sender:
    """Sends in order; what arrives while a request is under way goes out with the next one."""

    def __init__(self, send: Send, units: int) -> None:
        """`units`: how many the experiment has already."""
        self._send = send
        self._units = units
        self._line: deque[Place] = deque()
        self._changed = threading.Condition()
        self._busy = False

    def add(self, unit: NewUnit, key: str | None = None) -> Place:
        place = Place(key=key)
        with self._changed:
            self._line.append(place)
        self.fill(place, unit)
        return place

    def reserve(self) -> Place:
        """A place for a unit that follows; those behind it wait until it is filled."""
        place = Place()
        with self._changed:
            self._line.append(place)
        return place

    def promise(self, place: Place) -> int:
        """The number that the unit in a reserved place will get."""
        with self._changed:
            if place.promised is None:
                place.promised = self._units + self._line.index(place) + 1
            return place.promised

    def fill(self, place: Place, unit: NewUnit) -> None:
        with self._changed:
            place.size = len(unit.model_dump_json())
            place.unit = unit
            self._wake()

    def withdraw(self, place: Place) -> None:
        """Gives up a place that was not filled."""
        with self._changed:
            self._line.remove(place)
            self._wake()

    def flush(self) -> None:
        """Returns when everything that is ready was sent or refused."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy)

    def _wake(self) -> None:
        if not self._busy and self._line and self._line[0].unit is not None:
            self._busy = True
            threading.Thread(target=self._run, name="xmcloud-sender", daemon=True).start()

    def _run(self) -> None:
        while batch := self._next():
            self._deliver(batch)
            with self._changed:
                self._units -= sum(place.jobs.exception() is not None for place in batch)

    def _next(self) -> list[Place]:
        """The next batch; empty, and the thread ends, when nothing is ready."""
        batch: list[Place] = []
        size = jobs = 0
        with self._changed:
            while self._line and (unit := (place := self._line[0]).unit) is not None:
                size += place.size
                jobs += len(unit.jobs)
                alone = place.key or (batch and batch[0].key)
                if batch and (alone or size > BATCH_BYTES or jobs > BATCH_LIMIT):
                    break
                batch.append(self._line.popleft())
            self._units += len(batch)
            self._busy = bool(batch)
            self._changed.notify_all()
        return batch

    def _deliver(self, batch: list[Place]) -> None:
        units = tuple(place.unit for place in batch if place.unit is not None)
        key = batch[0].key or uuid.uuid4().hex
        try:
            jobs = self._send(NewUnits(units=units), key)
        except XmcloudError as error:
            if len(batch) > 1 and 400 <= error.status < 500 and error.status != 401:
                for place in batch:
                    self._deliver([place])
                return
            for place in batch:
                place.jobs.set_exception(error)
        else:
            for place, unit in zip(batch, by_unit(jobs).values(), strict=True):
                _settle(place, unit)
        finally:
            for place in batch:
                if not place.jobs.done():
                    place.jobs.set_exception(RuntimeError("the sender broke down"))


def _settle(place: Place, jobs: Sequence[Job]) -> None:
    number = jobs[0].unit
    if place.promised in (None, number):
        place.jobs.set_result(jobs)
        return
    place.jobs.set_exception(
        XmcloudError(
            f"The unit was promised number {place.promised} and got {number}, because a unit "
            "before it was refused or somebody else added one.",
            "Read work_unit_id after the job was added, or repeat the launch.",
        )
    )
