"""The FastAPI application."""

from fastapi import Depends, FastAPI, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import Response

from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.errors import Unauthorized
from xmcloud.core.protocol import Health
from xmcloud.core.version import VERSION
from xmcloud.functions.http import (
    attempts,
    blobs,
    builds,
    experiments,
    jobs,
    problems,
    queues,
    targets,
    workers,
)
from xmcloud.functions.http.auth import Authenticator
from xmcloud.functions.http.common import answer
from xmcloud.functions.http.limits import BodyLimit

_bearer = HTTPBearer(auto_error=False)


async def _authenticate(
    request: Request,
    credentials: HTTPAuthorizationCredentials | None = Depends(_bearer),  # noqa: B008
) -> None:
    authenticator: Authenticator = request.app.state.authenticator
    if credentials is None:
        raise Unauthorized(
            "The request carries no bearer token.", "Send `Authorization: Bearer TOKEN`."
        )
    await authenticator.authenticate(credentials.credentials)


def create_app(plane: ControlPlane, authenticator: Authenticator) -> FastAPI:
    """The API over a control plane."""
    app = FastAPI(
        title="xmcloud",
        version=VERSION,
        docs_url="/v1/docs",
        openapi_url="/v1/openapi.json",
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.plane = plane
    app.state.authenticator = authenticator
    problems.install(app)

    @app.get("/v1/health", tags=["health"], response_model=Health)
    async def health() -> Response:
        """Says that the API answers, and its version; needs no token."""
        return answer(Health(version=app.version))

    app.include_router(attempts.router, prefix="/v1", responses=problems.DOCUMENTED)
    for module in (experiments, jobs, queues, workers, blobs, builds, targets):
        app.include_router(
            module.router,
            prefix="/v1",
            dependencies=[Depends(_authenticate)],
            responses=problems.DOCUMENTED,
        )
    app.add_middleware(BodyLimit)
    return app
