"""/v1/projects/{project}/usage: what people run, and what they used, beside their quotas."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from xmcloud.core.control.using import project_usage
from xmcloud.core.identity import Permission
from xmcloud.core.usage import Month, ProjectUsage
from xmcloud.functions.http.common import Plane, ProjectName, answer, in_project

router = APIRouter(tags=["projects"])


@router.get(
    "/projects/{project}/usage",
    response_model=ProjectUsage,
    dependencies=[in_project(Permission.READ)],
)
async def read_usage(
    plane: Plane,
    project: ProjectName,
    month: Annotated[
        Month | None, Query(description="Of UTC, as 2026-11; without it, this one.")
    ] = None,
) -> Response:
    """Jobs that run and wait now, and GPU-hours of a month, by person."""
    return answer(await project_usage(plane, project, month))
