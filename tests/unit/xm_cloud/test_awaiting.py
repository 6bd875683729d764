import asyncio
from concurrent.futures import Future

import pytest

from xmcloud.xm_cloud.awaiting import Pending, in_loop, in_thread, loop_runs_here


def test_a_result_is_awaited_and_asked_for() -> None:
    pending = Pending(in_thread(lambda: 3, "test"))

    async def twice() -> int:
        return await pending + await pending

    assert asyncio.run(twice()) == 6
    assert pending.result() == 3


def test_who_gives_up_disturbs_nobody() -> None:
    future: Future[int] = Future()
    pending = Pending(future)

    async def give_up() -> None:
        waiting = asyncio.ensure_future(_await(pending))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(give_up())
    future.set_result(1)
    assert pending.result() == 1


async def _await(pending: Pending[int]) -> int:
    return await pending


def test_a_failure_is_heard_by_who_awaits() -> None:
    def fail() -> int:
        raise ZeroDivisionError

    pending = Pending(in_thread(fail, "test"))
    assert isinstance(pending.failure(), ZeroDivisionError)
    assert not pending.heard
    with pytest.raises(ZeroDivisionError):
        asyncio.run(_await(pending))
    assert pending.heard


def test_a_cancelled_task_is_a_cancelled_result() -> None:
    async def script() -> bool:
        task = in_loop(asyncio.sleep(3600))
        await asyncio.sleep(0)
        for running in asyncio.all_tasks() - {asyncio.current_task()}:
            assert running is not None
            running.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return task.cancelled()

    assert asyncio.run(script())


def test_whether_a_loop_runs() -> None:
    async def script() -> bool:
        return loop_runs_here()

    assert (loop_runs_here(), asyncio.run(script())) == (False, True)
