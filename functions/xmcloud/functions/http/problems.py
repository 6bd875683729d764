"""Errors as problem details (RFC 9457)."""

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from xmcloud.core.errors import RateLimited, XmcloudError
from xmcloud.core.protocol import Problem

MEDIA_TYPE = "application/problem+json"


DOCUMENTED: dict[int | str, dict[str, Any]] = {
    status: {
        "description": meaning,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, meaning in {
        400: "The body is not JSON.",
        401: "The bearer token is missing or wrong.",
        403: "The caller's role does not allow it.",
        404: "Nothing has that id or name.",
        409: "The state of things does not allow it; the problem's type says which rule.",
        413: "The request, or what it would make, is too large.",
        422: "A field is missing or wrong; the problem names it.",
        429: "Too many requests: go on after as many seconds as Retry-After says.",
        503: "Busy, or a service behind the control plane does not answer: try again.",
        507: "No space is left on the control plane's disk.",
    }.items()
}
"""What any operation may answer, for the OpenAPI document."""


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, problem.status, headers, MEDIA_TYPE)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, XmcloudError)
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(error.status)
    if isinstance(error, RateLimited):
        headers = {"Retry-After": str(math.ceil(error.seconds))}
    return problem_response(Problem.of(error), headers)


_NOT_SENT_AS_JSON = Problem(
    type="urn:xmcloud:problem:invalid-input",
    title="Invalid input",
    status=422,
    detail="The body was not sent as JSON.",
    remedy="Send it with the header Content-Type: application/json.",
    field="body",
)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["loc"] == ("body",) and isinstance(first["input"], bytes):
        return problem_response(_NOT_SENT_AS_JSON)
    field = ".".join(str(part) for part in first["loc"])
    detail = f"{field}: {first['msg']}"
    if len(error.errors()) > 1:
        detail += f" (and {len(error.errors()) - 1} more)"
    problem = Problem(
        type="urn:xmcloud:problem:invalid-input",
        title="Invalid input",
        status=422,
        detail=detail.encode("utf-8", "replace").decode(),
        remedy="Correct the field; /v1/docs describes each of them.",
        field=field.encode("utf-8", "replace").decode(),
    )
    return problem_response(problem)


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    problem = Problem(
        type="about:blank", title=phrase, status=error.status_code, detail=str(error.detail)
    )
    return problem_response(problem, error.headers)


def install(app: FastAPI) -> None:
    """Makes every error of the app answer with a problem."""
    app.add_exception_handler(XmcloudError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _framework)
