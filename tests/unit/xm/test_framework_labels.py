"""Labels of the frameworks that launch."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from inspect import iscoroutinefunction

import pytest

from xmcloud import xm


def test_labels_hold_within_their_blocks() -> None:
    label = xm.framework_label("outer")
    assert xm.active_framework_labels() == ()
    with label, xm.framework_label("inner"):
        assert xm.active_framework_labels() == ("outer", "inner")
        with label:
            assert xm.active_framework_labels() == ("outer", "inner")
        assert xm.active_framework_labels() == ("outer", "inner")
    assert xm.active_framework_labels() == ()


def test_a_label_ends_with_an_error() -> None:
    with pytest.raises(RuntimeError), xm.framework_label("a"):
        raise RuntimeError
    assert xm.active_framework_labels() == ()


def test_a_decorated_function_is_labelled_at_every_call() -> None:
    @xm.framework_label("fw")
    def launch(depth: int) -> tuple[str, ...]:
        return launch(depth - 1) if depth else xm.active_framework_labels()

    assert [launch(depth=0), launch(2)] == [("fw",), ("fw",)]
    assert launch.__name__ == "launch"
    assert xm.active_framework_labels() == ()


def test_a_decorated_generator_of_jobs_stays_a_coroutine_function() -> None:
    @xm.framework_label("fw")
    async def generator(work_unit: object) -> tuple[str, ...]:
        return xm.active_framework_labels()

    assert iscoroutinefunction(generator)
    assert asyncio.run(generator(None)) == ("fw",)


@pytest.mark.anyio
async def test_coroutines_at_one_time_have_labels_of_their_own() -> None:
    both_run = asyncio.Barrier(2)

    async def labels() -> tuple[str, ...]:
        await both_run.wait()
        return xm.active_framework_labels()

    first, second = xm.framework_label("first")(labels), xm.framework_label("second")(labels)
    assert tuple(await asyncio.gather(first(), second())) == (("first",), ("second",))


@pytest.mark.parametrize("label", ["", "a b", "a\n", "a:b", "a.b", "a,b", "ü"])
def test_a_label_is_made_of_letters_digits_underscores_and_hyphens(label: str) -> None:
    with pytest.raises(ValueError, match="is not made of letters"):
        xm.framework_label(label)
    with xm.framework_label("T5X_2-b"):
        assert xm.active_framework_labels() == ("T5X_2-b",)


def test_a_generator_function_is_not_labelled() -> None:
    def generate() -> Iterator[None]:
        yield

    async def generate_later() -> AsyncIterator[None]:
        yield

    for function in (generate, generate_later):
        with pytest.raises(TypeError, match=f"{function.__name__} is a generator function"):
            xm.framework_label("fw")(function)
