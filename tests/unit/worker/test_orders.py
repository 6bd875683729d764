"""Which queue a worker takes from first, over many claims."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from xmcloud.worker.orders import Fair, Order, Strict


def served(order: Order, waiting: Counter[str], jobs: int, slots: int = 1) -> list[str]:
    """What is taken, when a claim empties a queue before it looks at the next."""
    taken: list[str] = []
    while len(taken) < jobs and waiting.total():
        hungry = {queue for queue, count in waiting.items() if count}
        queues, count = order.claim(hungry, slots)
        assert set(queues) == hungry
        assert 1 <= count <= slots
        for queue in queues:
            while count and waiting[queue]:
                waiting[queue] -= 1
                count -= 1
                order.took(queue)
                taken.append(queue)
    return taken


def test_strictly_nothing_is_taken_of_a_queue_while_something_waits_before_it() -> None:
    order = Strict(("high", "low"))
    assert served(order, Counter(low=3, high=2), 5) == ["high", "high", "low", "low", "low"]


def test_fairly_queues_share_by_weight() -> None:
    order = Fair({"a": 3, "b": 1})
    assert served(order, Counter(a=100, b=100), 8) == ["a", "b", "a", "a", "a", "b", "a", "a"]


def test_what_is_alone_has_all_slots() -> None:
    assert Fair({"a": 3, "b": 1}).claim({"b"}, 8) == (("b",), 8)


def test_a_queue_that_was_empty_has_saved_up_nothing() -> None:
    order = Fair({"a": 1, "b": 1})
    served(order, Counter(a=50), 50)
    assert Counter(served(order, Counter(a=10, b=10), 10)) == {"a": 5, "b": 5}


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 10), min_size=2),
    st.integers(1, 8),
)
def test_shares_come_out_whatever_the_weights_and_slots(
    weights: dict[str, int], slots: int
) -> None:
    jobs = 40 * sum(weights.values())
    waiting = Counter(dict.fromkeys(weights, jobs))
    counts = Counter(served(Fair(weights), waiting, jobs, slots))
    for queue, weight in weights.items():
        assert abs(counts[queue] - counts.total() * weight / sum(weights.values())) <= 2 * slots
