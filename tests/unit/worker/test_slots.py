"""What of a machine each job gets, and what is left."""

import secrets
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.support.nvml import GIB, gpu
from xmcloud.worker.cores import Cores
from xmcloud.worker.gpus import Driver, Gpu
from xmcloud.worker.machine import Machine
from xmcloud.worker.slots import Allotment, Slots

FOUR = tuple(gpu(index) for index in range(4))
T4 = gpu(4, "Tesla T4", 16 * GIB)


def key(number: int) -> tuple[str, int]:
    return f"job-{number}", 1


def slots(
    gpus: Sequence[Gpu] = FOUR, total: int = 10, announced: Mapping[str, float] | None = None
) -> Slots:
    machine = Machine(tuple(gpus), Driver(tuple(gpus)))
    resources = {"cpu": 8.0, **Machine(tuple(gpus)).resources()}
    return Slots(total, resources if announced is None else announced, machine)


def free(room: Slots) -> dict[str, float]:
    return {k: v for k, v in room.free_resources().items() if k not in ("cpu", "memory")}


def uuids(allotment: Allotment) -> set[str]:
    return {each.uuid for each in allotment.gpus}


def test_a_gpu_counts_under_its_names_and_is_given_once() -> None:
    room = slots()
    assert free(room) == {"a100": 4, "gpu": 4}
    named, any_two = room.take(key(1), {"a100": 1}), room.take(key(2), {"gpu": 2})
    assert (len(named.gpus), len(any_two.gpus)) == (1, 2)
    assert not uuids(named) & uuids(any_two)
    assert free(room) == {"a100": 1, "gpu": 1}
    room.give_back(key(2))
    room.give_back(key(2))
    assert free(room) == {"a100": 3, "gpu": 3}


def test_of_several_kinds_whoever_takes_any_gets_the_smallest() -> None:
    room = slots([*FOUR[:1], T4])
    assert free(room) == {"a100": 1, "t4": 1, "gpu": 2}
    assert room.take(key(1), {"gpu": 1}).gpus == (T4,)
    assert free(room) == {"a100": 1, "gpu": 1}
    assert room.take(key(2), {"a100": 1}).gpus == FOUR[:1]
    assert free(room) == {}


def test_shares_of_a_gpu_share_one() -> None:
    room = slots(FOUR[:2])
    halves = [room.take(key(n), {"gpu": 0.5}) for n in (1, 2)]
    assert uuids(halves[0]) == uuids(halves[1])
    assert free(room) == {"a100": 1, "gpu": 1}
    third = room.take(key(3), {"gpu": 0.3})
    assert uuids(third) != uuids(halves[0])
    assert free(room) == {"a100": 0.7, "gpu": 0.7}
    room.give_back(key(1))
    assert free(room)["gpu"] == 0.7, "half of one and 0.7 of another are no whole one"
    assert room.take(key(4), {"gpu": 0.5}).gpus == halves[0].gpus


def test_more_than_a_whole_one_is_whole_ones_and_a_share() -> None:
    room = slots(FOUR[:2])
    taken = room.take(key(1), {"gpu": 1.5})
    assert len(uuids(taken)) == 2
    assert free(room)["gpu"] == 0.5
    assert room.take(key(2), {"gpu": 0.5}).gpus == taken.gpus[1:]


def test_ten_tenths_are_one() -> None:
    room = slots(FOUR[:1])
    for number in range(10):
        assert not room.take(key(number), {"gpu": 0.1}).lacking
    assert free(room) == {}
    for number in range(10):
        room.give_back(key(number))
    assert free(room)["gpu"] == 1


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"gpu": 3}, "asks for 3 gpu.*1 gpu free"),
        ({"t4": 1}, "asks for 1 t4.*0 t4 free"),
        ({"a100": 1, "gpu": 1}, "1 a100 and 1 gpu"),
    ],
)
def test_what_is_not_there_is_not_shared(wanted: Mapping[str, float], said: str) -> None:
    room = slots(FOUR[:2])
    room.take(key(1), {"gpu": 1})
    before = free(room)
    taken = room.take(key(2), wanted)
    assert taken.gpus == ()
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(taken.lacking)
    assert (free(room), room.free) == (before, 8)
    room.give_back(key(2))
    assert (free(room), room.free) == (before, 9)


def test_a_place_that_was_kept_hands_its_gpus_on() -> None:
    room = slots(FOUR[:2])
    kept = room.take(("job-1", 0), {"a100": 2})
    assert room.take(key(1), {"a100": 2}, instead_of=("job-1", 0)) is kept
    assert (room.free, free(room)) == (9, {})
    room.give_back(("job-1", 0))
    assert room.free == 9
    room.give_back(key(1))
    assert free(room)["gpu"] == 2


def test_a_place_that_is_kept_twice_is_one() -> None:
    room = slots(FOUR[:2])
    for _ in range(2):
        room.take(key(1), {"gpu": 1})
    assert (room.free, free(room)["gpu"]) == (9, 1)


def test_a_place_that_lacked_gets_its_gpus_when_there_are_some() -> None:
    room = slots(FOUR[:1])
    room.take(key(1), {"gpu": 1})
    assert room.take(("job-2", 0), {"gpu": 1}).lacking
    room.give_back(key(1))
    assert room.take(key(2), {"gpu": 1}, instead_of=("job-2", 0)).gpus == FOUR[:1]
    assert room.free == 9


def test_what_runs_already_keeps_its_gpus() -> None:
    room = slots(FOUR)
    held = room.restore(key(1), {"gpu": 1.5}, [FOUR[2].uuid, FOUR[3].uuid])
    assert held.gpus == FOUR[2:]
    assert free(room)["gpu"] == 2.5
    assert room.take(key(2), {"gpu": 2}).gpus == FOUR[:2]
    room.give_back(key(1))
    assert room.take(key(3), {"gpu": 2}).gpus == FOUR[2:]


def test_a_gpu_that_the_worker_no_longer_uses_is_nobody_else_s() -> None:
    room = slots(FOUR[:1])
    assert room.restore(key(1), {"gpu": 1}, ["GPU-gone"]).gpus == ()
    assert room.take(key(2), {"gpu": 1}).gpus == FOUR[:1]


def test_less_can_be_announced_than_there_is() -> None:
    room = slots(FOUR, announced={"gpu": 2})
    assert room.free_resources() == {"gpu": 2}
    room.take(key(1), {"gpu": 1})
    assert room.free_resources() == {"gpu": 1}


def test_a_kind_that_only_the_settings_know_is_of_the_gpus_there_are() -> None:
    room = slots(FOUR[:1], announced={"b40-48th": 1})
    assert room.take(key(1), {"b40-48th": 1}).gpus == FOUR[:1]
    assert room.free_resources() == {}


def test_other_resources_are_counted() -> None:
    room = slots((), announced={"license": 2, "gpu": 1})
    taken = room.take(key(1), {"license": 1, "gpu": 1})
    assert (taken.gpus, taken.lacking) == ((), "")
    assert room.free_resources() == {"license": 1}


def test_a_job_sees_its_gpus_and_no_others() -> None:
    room = slots(FOUR[:2])
    uuid = FOUR[0].uuid
    assert room.take(key(1), {"a100": 1}).environment() == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": uuid,
        "NVIDIA_VISIBLE_DEVICES": uuid,
    }
    assert room.take(key(2), {"cpu": 1}).environment() == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }


def test_gpus_that_the_worker_does_not_use_are_hidden() -> None:
    room = Slots(1, {}, Machine((), Driver(FOUR)))
    assert room.take(key(1), {}).environment()["CUDA_VISIBLE_DEVICES"] == ""


def test_without_gpus_no_variable_is_touched() -> None:
    assert Slots(1, {}).take(key(1), {}).environment() == {}


@pytest.mark.parametrize(
    ("resources", "threads"),
    [({"cpu": 4}, "4"), ({"cpu": 2.5}, "2"), ({"cpu": 0.5}, "1"), ({}, None)],
)
def test_threads_are_as_many_as_cores(resources: Mapping[str, float], threads: str | None) -> None:
    defaults = slots(()).take(key(1), resources).defaults()
    assert defaults.get("OMP_NUM_THREADS") == threads


class Desk:
    """Workers of one machine with four cores."""

    def __init__(self) -> None:
        self._group = f"test-{secrets.token_hex(8)}"
        self._opened: list[tuple[Cores, tuple[int, ...]]] = []

    def cores(self) -> Cores:
        return Cores(range(4), self._group)

    def take(self, cores: Cores, count: int) -> tuple[int, ...]:
        taken = cores.take(count)
        self._opened.append((cores, taken))
        return taken

    def close(self) -> None:
        for cores, taken in self._opened:
            cores.give_back(taken)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.close()


def test_cores_are_of_one_job_alone_among_all_workers(desk: Desk) -> None:
    ant, bee = desk.cores(), desk.cores()
    assert desk.take(ant, 2) == (0, 1)
    assert desk.take(bee, 1) == (2,)
    assert desk.take(ant, 1) == (3,)


def test_too_few_cores_are_shared_by_turns(desk: Desk) -> None:
    cores = desk.cores()
    taken = [desk.take(cores, 3) for _ in range(4)]
    assert sorted(core for each in taken for core in each) == sorted([*range(4)] * 3)


def test_who_wants_more_cores_than_there_are_may_use_all(desk: Desk) -> None:
    assert desk.take(desk.cores(), 5) == ()


def test_cores_come_back(desk: Desk) -> None:
    cores = desk.cores()
    room = Slots(9, {"cpu": 4.0}, Machine(cores=cores))
    assert room.take(key(1), {"cpu": 3}).cpus == (0, 1, 2)
    assert room.take(key(2), {"cpu": 0.5}).cpus == ()
    assert room.take(key(3), {}).cpus == ()
    assert room.restore(key(4), {"cpu": 1}, [], [3]).cpus == (3,)
    for number in (1, 4):
        room.give_back(key(number))
    assert desk.take(desk.cores(), 4) == (0, 1, 2, 3)


def test_hundreds_of_small_jobs_have_their_places() -> None:
    room = slots(FOUR, total=500, announced={"cpu": 64})
    for number in range(500):
        assert room.available.is_set()
        room.take(key(number), {"cpu": 0.1})
    assert (room.free, room.available.is_set(), room.busy.is_set()) == (0, False, True)
    assert room.free_resources()["cpu"] == pytest.approx(14)
    for number in range(500):
        room.give_back(key(number))
    assert (room.free, room.available.is_set(), room.busy.is_set()) == (500, True, False)
    assert room.free_resources() == {"cpu": 64}
