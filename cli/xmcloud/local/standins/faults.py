"""Failures on demand: what a stand-in does wrong next, told over HTTP.

curl -X PUT localhost:PORT/faults/vertex -d '{"quota": 2}'
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Literal, TypeVar

from aiohttp import web
from pydantic import Field, ValidationError

from xmcloud.core.base import Model
from xmcloud.core.signals import Signals
from xmcloud.local.processes import LOOPBACK

ANY = "*"
_CHANGED = "changed"
Counted = Literal["quota", "refuse", "unavailable", "fail_before", "fail_after"]
Ending = Literal["preempt", "break"]
Count = Annotated[int, Field(ge=0)]
_T = TypeVar("_T")


class Plan(Model):
    """What is to go wrong. Counts go down, and names go away, as it happens."""

    quota: Count = Field(0, description="Submissions refused for want of quota.")
    refuse: Count = Field(0, description="Submissions refused for good.")
    unavailable: Count = Field(0, description="Calls of any kind that get no answer.")
    fail_before: Count = Field(0, description="Submissions that fail inside and make nothing.")
    fail_after: Count = Field(0, description="Submissions that fail inside, yet take effect.")
    hold: bool = Field(False, description="What is submitted waits and does not start.")
    endings: dict[str, Ending] = Field(
        {}, description=f"What ends early, and how, by id or label; {ANY!r}: the next that runs."
    )
    duplicates: Count = Field(0, description="How many times each event comes again.")


class Faults:
    """The plan of one stand-in; it may change while that serves."""

    def __init__(self) -> None:
        self._plan = Plan()
        self._signals = Signals()

    @property
    def plan(self) -> Plan:
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._plan = plan
        self._signals.send(_CHANGED)

    def take(self, fault: Counted) -> bool:
        """Whether it happens now; it then happens once less."""
        left: int = getattr(self._plan, fault)
        if left:
            self._plan = self._plan.evolve(**{fault: left - 1})
        return left > 0

    async def released(self) -> None:
        """Returns when nothing is held back."""
        await self._until(lambda: not self._plan.hold or None)

    async def ending(self, *names: str) -> Ending:
        """Returns when something of any of these names is to end, and how."""
        return await self._until(lambda: self._take_ending(names))

    def _take_ending(self, names: tuple[str, ...]) -> Ending | None:
        endings = self._plan.endings
        name = next((name for name in (*names, ANY) if name in endings), None)
        if name is None:
            return None
        rest = {other: how for other, how in endings.items() if other != name}
        self._plan = self._plan.evolve(endings=rest)
        return endings[name]

    async def _until(self, look: Callable[[], _T | None]) -> _T:
        async with self._signals.listen(_CHANGED) as changed:
            while (found := look()) is None:
                await changed.wait()
                changed.clear()
            return found


@asynccontextmanager
async def serve_faults(port: int, faults: Mapping[str, Faults]) -> AsyncIterator[None]:
    """Serve /faults/NAME on loopback: GET tells the plan, PUT replaces it, DELETE empties it."""
    app = web.Application()
    app.router.add_route("*", "/faults/{name}", partial(_answer, faults))
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
        yield
    finally:
        await runner.cleanup()


async def _answer(served: Mapping[str, Faults], request: web.Request) -> web.Response:
    faults = served.get(request.match_info["name"])
    if faults is None:
        known = ", ".join(served)
        return web.json_response({"detail": f"There are faults of: {known}."}, status=404)
    try:
        if request.method == "PUT":
            faults.plan = Plan.model_validate_json(await request.read())
        elif request.method == "DELETE":
            faults.plan = Plan()
    except ValidationError as error:
        return web.json_response({"detail": str(error)}, status=422)
    return web.json_response(faults.plan.model_dump())
