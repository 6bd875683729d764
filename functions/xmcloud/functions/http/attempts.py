"""/v1/attempts: what the process of an attempt in the cloud tells of itself.

Its token is good for this attempt only.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import Response

from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.sync import attempt_reports
from xmcloud.core.errors import Unauthorized
from xmcloud.core.worker_protocol import AttemptAnswer, AttemptReports
from xmcloud.functions.http import examples
from xmcloud.functions.http.common import StoredPlane, answer

router = APIRouter(prefix="/attempts", tags=["attempts"])

JobId = Annotated[str, Path(pattern="^[a-z2-7]{16}$")]
Fence = Annotated[int, Path(ge=1)]
_bearer = HTTPBearer(auto_error=False, scheme_name="AttemptToken")


async def _authenticate(
    request: Request,
    credentials: HTTPAuthorizationCredentials | None = Depends(_bearer),  # noqa: B008
) -> None:
    if credentials is None:
        raise Unauthorized("The request carries no bearer token.", "Send XMCLOUD_ATTEMPT_TOKEN.")
    plane: ControlPlane = request.app.state.plane
    path = request.path_params
    with request.app.state.rates.guessing(request):
        plane.tokens.check(credentials.credentials, path["job"], path["fence"])


@router.post(
    "/{job}/{fence}/reports", response_model=AttemptAnswer, dependencies=[Depends(_authenticate)]
)
async def report_attempt(
    plane: StoredPlane,
    job: JobId,
    fence: Fence,
    body: Annotated[AttemptReports, examples.ATTEMPT_REPORTS],
) -> Response:
    """Takes its reports, and says whether it is to stop. Without reports, it only asks."""
    return answer(await attempt_reports(plane, job, fence, body.reports))
