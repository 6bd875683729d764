"""What is left of a worker for the next job of one claim."""

from collections.abc import Mapping

import pytest

from tests.support.builders import draft, spec
from xmcloud.core.control.free import Free
from xmcloud.core.models import Job
from xmcloud.core.resources import left_after


def job(number: int, resources: Mapping[str, float]) -> Job:
    return draft(spec(resources=resources)).evolve(id=f"{number + 1}" * 16)


@pytest.mark.parametrize(
    ("free", "wanted", "left"),
    [
        ({"cpu": 4, "memory": 8}, {"cpu": 1.5}, {"cpu": 2.5, "memory": 8}),
        ({"a100": 2, "gpu": 2}, {"a100": 2}, {"a100": 0, "gpu": 0}),
        ({"a100": 2, "gpu": 2}, {"gpu": 1}, {"a100": 1, "gpu": 1}),
        ({"a100": 1, "t4": 4, "gpu": 5}, {"t4": 2}, {"a100": 1, "t4": 2, "gpu": 3}),
        ({"a100": 1, "t4": 4, "gpu": 5}, {"gpu": 2}, {"a100": 0, "t4": 2, "gpu": 3}),
        (
            {"a100": 2, "a100-80gib": 1, "gpu": 2},
            {"a100": 1},
            {"a100": 1, "a100-80gib": 0, "gpu": 1},
        ),
        ({"gpu": 1}, {"gpu": 0.5}, {"gpu": 0.5}),
        ({"gpu": 1.5}, {"gpu": 0.5}, {"gpu": 1}),
        ({"gpu": 1.5}, {"gpu": 0.6}, {"gpu": 0.5}),
        ({"gpu": 2.5}, {"gpu": 1.5}, {"gpu": 1}),
        ({"a100": 1, "gpu": 1}, {"a100": 0.5}, {"a100": 0.5, "gpu": 0}),
        ({"license": 2, "gpu": 1}, {"license": 0.5}, {"license": 1.5, "gpu": 1}),
    ],
)
def test_what_is_left_is_surely_there(
    free: dict[str, float], wanted: dict[str, float], left: dict[str, float]
) -> None:
    assert left_after(free, wanted) == left


def test_one_gpu_is_not_given_under_two_names() -> None:
    free = Free(5, {"a100": 1, "gpu": 1}, [])
    named, any_one = job(1, {"a100": 1}), job(2, {"gpu": 1})
    assert free.fits(named)
    assert free.fits(any_one)
    assert not free.take_all([named, any_one])
    assert (free.slots, free.resources) == (5, {"a100": 1, "gpu": 1})


def test_a_group_may_share_one_gpu() -> None:
    free = Free(5, {"gpu": 1}, [])
    assert free.take_all([job(1, {"gpu": 0.5}), job(2, {"gpu": 0.5})])
    assert (free.slots, free.resources) == (3, {"gpu": 0})


def test_what_was_lost_to_others_is_free_again() -> None:
    free = Free(5, {"a100": 2, "gpu": 2, "cpu": 4}, [])
    first, second = job(1, {"a100": 1, "cpu": 1}), job(2, {"gpu": 1, "cpu": 1})
    assert free.take_all([first, second])
    free.give_back([first])
    assert (free.slots, free.resources) == (4, {"a100": 1, "gpu": 1, "cpu": 3})
    free.give_back([second])
    assert (free.slots, free.resources) == (5, {"a100": 2, "gpu": 2, "cpu": 4})
