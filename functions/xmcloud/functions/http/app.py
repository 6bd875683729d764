"""The FastAPI application."""

from collections.abc import Sequence

from fastapi import Depends, FastAPI
from starlette.responses import Response

from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.protocol import Health
from xmcloud.core.version import VERSION
from xmcloud.functions.http import (
    attempts,
    blobs,
    builds,
    experiments,
    jobs,
    members,
    operation,
    problems,
    queues,
    schema,
    secrets,
    targets,
    transfer,
    usage,
    workers,
)
from xmcloud.functions.http.auth import Authenticator
from xmcloud.functions.http.common import answer, authenticated
from xmcloud.functions.http.limits import BodyLimit
from xmcloud.functions.http.rates import Rates
from xmcloud.functions.http.security import SecurityHeaders, docs_page
from xmcloud.functions.observability.readiness import Readiness
from xmcloud.functions.observability.requests import Observed, RequestCounts


def create_app(
    plane: ControlPlane, authenticators: Sequence[Authenticator], rates: Rates | None = None
) -> FastAPI:
    """The API over a control plane, for who has a token that one of the authenticators knows."""
    app = FastAPI(
        title="xmcloud",
        version=VERSION,
        docs_url=None,
        openapi_url="/v1/openapi.json",
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.plane = plane
    app.state.authenticators = authenticators
    app.state.rates = rates or Rates()
    app.state.counts, app.state.readiness = RequestCounts(), Readiness()
    problems.install(app)

    @app.get("/v1/health", tags=["health"], response_model=Health)
    async def health() -> Response:
        """Says that the API answers, and its version; needs no token."""
        return answer(Health(version=app.version))

    @app.get("/v1/docs", include_in_schema=False)
    async def docs() -> Response:
        return docs_page()

    for open_router in (attempts.router, operation.public):
        app.include_router(open_router, prefix="/v1", responses=problems.DOCUMENTED)
    for module in (
        *(experiments, jobs, queues, workers, blobs, builds, targets, members, operation),
        schema,
        secrets,
        transfer,
        usage,
    ):
        app.include_router(
            module.router,
            prefix="/v1",
            dependencies=[Depends(authenticated)],
            responses=problems.DOCUMENTED,
        )
    app.add_middleware(BodyLimit)
    app.add_middleware(Observed, counts=app.state.counts)
    app.add_middleware(SecurityHeaders)
    return app
