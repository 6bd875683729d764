"""How units are sent together, with a control plane that answers when the test lets it."""

import itertools
import queue
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support.builders import draft
from xmcloud.core.errors import InvalidInput, Unavailable, XmcloudError
from xmcloud.core.models import Job
from xmcloud.core.names import random_id
from xmcloud.core.protocol import NewJob, NewUnit, NewUnits
from xmcloud.core.specs import Argument, Command, JobSpec
from xmcloud.xm_cloud import sender
from xmcloud.xm_cloud.sender import Place, Sender

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = 20.0


def unit(name: str, padding: int = 0) -> NewUnit:
    spec = JobSpec(executable=Command(command=("x",)), arguments=(Argument(value="a" * padding),))
    return NewUnit(jobs=(NewJob(name=name, spec=spec),))


class Gate:
    """Takes requests and answers each when `answer` is called, unless it is open."""

    def __init__(self, units: int = 0) -> None:
        self.requests: queue.SimpleQueue[tuple[list[str], str]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[XmcloudError | None] = queue.SimpleQueue()
        self._units = units
        self._open = threading.Event()

    def send(self, new: NewUnits, key: str) -> list[Job]:
        names = [unit.jobs[0].name for unit in new.units]
        self.requests.put((names, key))
        if not self._open.is_set() and (error := self._answers.get(timeout=SECONDS)):
            raise error
        if refused := [name for name in names if name.startswith("bad")]:
            raise InvalidInput("name", refused[0], "good")
        return [self._job(unit.jobs[0]) for unit in new.units]

    def _job(self, new: NewJob) -> Job:
        self._units += 1
        return draft(new.spec).evolve(id=random_id(), unit=self._units, name=new.name)

    def next(self) -> list[str]:
        return self.requests.get(timeout=SECONDS)[0]

    def answer(self, error: XmcloudError | None = None) -> None:
        self._answers.put(error)

    def open(self) -> None:
        self._open.set()
        self._answers.put(None)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def numbers(places: list[Place]) -> list[int]:
    return [place.jobs.result(SECONDS)[0].unit for place in places]


def test_the_first_goes_out_at_once_and_the_rest_together(gate: Gate) -> None:
    line = Sender(gate.send, 0)
    places = [line.add(unit("1"))]
    assert gate.next() == ["1"]
    places += [line.add(unit(name)) for name in ("2", "3", "4")]
    assert gate.requests.empty()
    gate.answer()
    assert gate.next() == ["2", "3", "4"]
    gate.answer()
    assert numbers(places) == [1, 2, 3, 4]


def test_a_batch_has_a_limit_of_units(gate: Gate) -> None:
    line = Sender(gate.send, 0)
    line.add(unit("first"))
    gate.next()
    places = [line.add(unit(str(number))) for number in range(401)]
    gate.open()
    assert [len(gate.next()), len(gate.next())] == [400, 1]
    assert numbers(places) == list(range(2, 403))


def test_a_batch_has_a_limit_of_bytes(gate: Gate) -> None:
    line = Sender(gate.send, 0)
    line.add(unit("first"))
    gate.next()
    for name in "abc":
        line.add(unit(name, padding=sender.BATCH_BYTES // 2 - 1000))
    gate.open()
    assert [gate.next(), gate.next()] == [["a", "b"], ["c"]]


def test_each_batch_has_a_key_of_its_own_and_a_unit_may_bring_one(gate: Gate) -> None:
    gate.open()
    line = Sender(gate.send, 0)
    sent = []
    for name, key in (("a", None), ("b", "mine"), ("c", None)):
        line.add(unit(name), key).jobs.result(SECONDS)
        sent.append(gate.requests.get(timeout=SECONDS))
    assert sent[1] == (["b"], "mine")
    assert len({key for _, key in sent}) == 3


def test_a_unit_with_its_own_key_goes_alone(gate: Gate) -> None:
    line = Sender(gate.send, 0)
    line.add(unit("first"))
    gate.next()
    for name, key in (("a", None), ("b", "mine"), ("c", None), ("d", None)):
        line.add(unit(name), key)
    gate.open()
    assert [gate.next(), gate.next(), gate.next()] == [["a"], ["b"], ["c", "d"]]


def test_siblings_of_a_refused_unit_are_sent(gate: Gate) -> None:
    line = Sender(gate.send, 0)
    line.add(unit("first"))
    gate.next()
    good, bad, other = (line.add(unit(name)) for name in ("a", "bad", "c"))
    gate.open()
    with pytest.raises(InvalidInput, match="bad"):
        bad.jobs.result(SECONDS)
    assert numbers([good, other]) == [2, 3]


def test_a_failure_reaches_every_unit_of_the_batch_and_no_other(gate: Gate) -> None:
    line = Sender(gate.send, 0)
    first = line.add(unit("first"))
    gate.next()
    gate.answer(Unavailable("gone", "try"))
    with pytest.raises(Unavailable):
        first.jobs.result(SECONDS)
    second = line.add(unit("second"))
    gate.next()
    gate.answer()
    assert numbers([second]) == [1]


def test_flush_waits_for_what_is_under_way(gate: Gate) -> None:
    line = Sender(gate.send, 0)
    place = line.add(unit("1"))
    gate.next()
    flushed = threading.Event()

    def flush() -> None:
        line.flush()
        flushed.set()

    threading.Thread(target=flush).start()
    assert not place.jobs.done()
    assert not flushed.is_set()
    gate.answer()
    assert flushed.wait(SECONDS)
    assert place.jobs.done()


def test_a_reserved_place_keeps_its_number(gate: Gate) -> None:
    gate.open()
    line = Sender(gate.send, 0)
    before = line.add(unit("before"))
    before.jobs.result(SECONDS)
    reserved = line.reserve()
    after = line.add(unit("after"))
    assert line.promise(reserved) == 2
    line.fill(reserved, unit("reserved"))
    assert numbers([before, reserved, after]) == [1, 2, 3]


def test_a_promise_counts_what_is_under_way(gate: Gate) -> None:
    line = Sender(gate.send, 0)
    first = line.add(unit("1"))
    gate.next()
    second = line.add(unit("2"))
    reserved = line.reserve()
    assert line.promise(reserved) == 3
    line.fill(reserved, unit("3"))
    gate.open()
    assert numbers([first, second, reserved]) == [1, 2, 3]


def test_a_withdrawn_place_holds_nobody_up(gate: Gate) -> None:
    gate.open()
    line = Sender(gate.send, 0)
    reserved = line.reserve()
    place = line.add(unit("1"))
    line.withdraw(reserved)
    assert numbers([place]) == [1]


def test_a_promise_that_was_not_kept_is_an_error(gate: Gate) -> None:
    gate.open()
    line = Sender(gate.send, 5)
    reserved = line.reserve()
    assert line.promise(reserved) == 6
    line.fill(reserved, unit("1"))
    with pytest.raises(XmcloudError, match="promised number 6 and got 1"):
        reserved.jobs.result(SECONDS)


def test_many_threads_add_at_once(gate: Gate) -> None:
    gate.open()
    line = Sender(gate.send, 0)
    places: list[Place] = []
    names = itertools.count()

    def add() -> None:
        places.extend(line.add(unit(str(next(names)))) for _ in range(50))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(places)) == list(range(1, 201))
