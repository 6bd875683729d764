"""/v1/builds: images that are made, or were."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from xmcloud.core.builds import Build
from xmcloud.core.control import builds
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.identity import Permission
from xmcloud.core.protocol import Act, Builds, NewBuild
from xmcloud.core.signals import woken
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import (
    Caller,
    Cursor,
    Limit,
    Plane,
    Wait,
    allowed,
    allowed_anywhere,
    answer,
    signed,
)

router = APIRouter(prefix="/builds", tags=["builds"])

BuildId = Annotated[str, Path(pattern="^[a-z2-7]{16}$")]


@router.post(
    "",
    status_code=201,
    response_model=Build,
    dependencies=[allowed_anywhere(Permission.WRITE)],
)
async def create_build(
    plane: Plane, caller: Caller, body: Annotated[NewBuild, examples.NEW_BUILD]
) -> Response:
    """The build of that spec. One that is there or under way is not made again."""
    return answer(await builds.create_build(plane, signed(caller, body)), 201)


@router.get("", response_model=Builds, dependencies=[allowed_anywhere(Permission.READ)])
async def list_builds(plane: Plane, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """The newest first."""
    return answer(await builds.list_builds(plane, limit, cursor))


@router.get("/{id}", response_model=Build, dependencies=[allowed_anywhere(Permission.READ)])
async def get_build(plane: Plane, id: BuildId, wait: Wait = 0) -> Response:
    """The build; with `wait`, when it has ended or that time has passed."""
    return answer(await _awaited(plane, id, wait))


@router.post("/{id}/stop", response_model=Build, dependencies=[allowed(Permission.OPERATE)])
async def stop_build(
    plane: Plane, caller: Caller, id: BuildId, body: Annotated[Act, examples.ACT]
) -> Response:
    """Ends the build; jobs that wait for its image fail."""
    return answer(await builds.stop_build(plane, id, signed(caller, body).by))


async def _awaited(plane: ControlPlane, id: str, wait: float) -> Build:
    deadline = plane.clock.now() + timedelta(seconds=wait)
    async with plane.signals.listen(f"build/{id}") as event:
        while True:
            build = await builds.get_build(plane, id)
            left = (deadline - plane.clock.now()).total_seconds()
            if build.state.terminal or left <= 0:
                return build
            await woken(event, min(left, plane.look_again.total_seconds()))
