"""Runs the functions that add a job to their unit themselves."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.awaiting import Pending, in_loop, in_thread, loop_runs_here
from xmcloud.xm_cloud.units import Unit

U = TypeVar("U", bound=Unit)


def run_generator(
    generator: xm.JobGeneratorType, unit: U, keywords: Mapping[str, Any]
) -> Future[U]:
    """Runs it in the caller's event loop, or in a thread with one of its own."""
    unit.reserve()
    if loop_runs_here():
        return in_loop(_run(generator, unit, keywords))
    import asyncio

    return in_thread(lambda: asyncio.run(_run(generator, unit, keywords)), "xmcloud-generator")


async def _run(generator: xm.JobGeneratorType, unit: U, keywords: Mapping[str, Any]) -> U:
    try:
        await _run_whole(generator, unit, keywords)
        if not unit.has_job:
            raise InvalidInput("job", generator, "a generator that adds a job to its work unit")
    finally:
        unit.abandon()
    return await Pending(unit.sent())


def run_nested(
    generator: xm.JobGeneratorType, unit: Unit, keywords: Mapping[str, Any]
) -> Future[None]:
    """Runs a generator that another one added to its unit."""
    return in_loop(_run_whole(generator, unit, keywords))


async def _run_whole(
    generator: xm.JobGeneratorType, unit: Unit, keywords: Mapping[str, Any]
) -> None:
    adding = generator(unit, **keywords)
    if adding is not None:
        await adding
    while unit.nested:
        await unit.nested.pop()
