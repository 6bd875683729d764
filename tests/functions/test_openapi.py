"""The OpenAPI document: whole, true, and enough to write a client from."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.functions.api import Api
from xmcloud.core.protocol import Health
from xmcloud.functions.http.examples import JOB

pytestmark = pytest.mark.anyio

METHODS = {"get", "put", "post", "patch", "head", "delete"}


class Operation(NamedTuple):
    method: str
    path: str
    described: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@pytest.fixture
async def document(api: Api) -> dict[str, Any]:
    answer: dict[str, Any] = (await api.call("GET", "/openapi.json")).json()
    return answer


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            assert method in METHODS
            yield Operation(method.upper(), path, described)


async def test_every_operation_is_described(document: dict[str, Any]) -> None:
    found = list(operations(document))
    assert len(found) >= 36
    assert len({operation.described["operationId"] for operation in found}) == len(found)
    for operation in found:
        assert operation.described["summary"], operation.name
        assert operation.described["description"].endswith("."), operation.name
        assert operation.described["tags"], operation.name


async def test_every_refusal_is_a_documented_problem(document: dict[str, Any]) -> None:
    for operation in operations(document):
        if operation.path == "/v1/health":
            continue
        refusals = {
            status: answer
            for status, answer in operation.described["responses"].items()
            if status >= "400"
        }
        assert refusals.keys() >= {"400", "401", "404", "409", "413", "422", "503", "507"}
        for status, answer in refusals.items():
            assert answer["description"], (operation.name, status)
            assert answer["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }, (operation.name, status)
    problem = document["components"]["schemas"]["Problem"]["properties"]
    assert problem.keys() == {"type", "title", "status", "detail", "remedy", "field"}


async def test_every_answer_has_a_schema(document: dict[str, Any]) -> None:
    for operation in operations(document):
        for status, answer in operation.described["responses"].items():
            if status >= "400" or status == "204" or operation.method in ("PUT", "HEAD"):
                continue
            (media,) = answer["content"].values()
            assert media["schema"], operation.name


def requests(document: dict[str, Any]) -> Iterator[tuple[Operation, str, Any]]:
    """Operation, name and value of each example of a request."""
    for operation in operations(document):
        body = operation.described.get("requestBody")
        for media in (body or {"content": {}})["content"].values():
            for name, example in media.get("examples", {}).items():
                assert example["summary"]
                yield operation, name, example["value"]


async def test_every_json_body_has_an_example(document: dict[str, Any]) -> None:
    shown = {operation.name for operation, _, _ in requests(document)}
    wanted = {
        operation.name
        for operation in operations(document)
        if "application/json" in operation.described.get("requestBody", {"content": {}})["content"]
    }
    assert len(wanted) >= 19
    assert shown == wanted


async def test_examples_are_accepted(api: Api, document: dict[str, Any]) -> None:
    """By the routes themselves: an example may name what is not there, but is never invalid."""
    known = {
        "{name}": "ant",
        "{project}": "default",
        "{id}": "a" * 16,
        "{digest}": "a" * 64,
        "{job}": JOB,
        "{fence}": "1",
    }
    of_the_attempt = {"Authorization": f"Bearer {api.plane.tokens.token(JOB, 1)}"}
    for operation, name, value in requests(document):
        path = operation.path
        headers = of_the_attempt if path.startswith("/v1/attempts") else {}
        for variable, placeholder in known.items():
            path = path.replace(variable, placeholder)
        if operation.path.endswith("messages/pull"):
            value.pop("wait_seconds")
        response = await api.http.request(operation.method, path, json=value, headers=headers)
        # This control plane builds no images, and is not empty.
        unfit = operation.name in ("POST /v1/builds", "POST /v1/imports/{digest}")
        accepted = {409} if unfit else {200, 201, 204, 404}
        assert response.status_code in accepted, (operation.name, name, response.text)


async def test_models_in_it_are_described(document: dict[str, Any]) -> None:
    bare = [
        name
        for name, schema in document["components"]["schemas"].items()
        if schema.get("type") == "object" and not schema.get("description")
    ]
    assert bare == []


async def test_it_names_the_token_and_needs_none(api: Api, document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"] == {
        "HTTPBearer": {"type": "http", "scheme": "bearer"},
        "AttemptToken": {"type": "http", "scheme": "bearer"},
    }
    for operation in operations(document):
        scheme = "AttemptToken" if operation.path.startswith("/v1/attempts") else "HTTPBearer"
        secured = operation.described.get("security") == [{scheme: []}]
        assert secured == (operation.path not in ("/v1/health", "/v1/ready")), operation.name
    for path in ("/openapi.json", "/docs"):
        await api.call("GET", path, headers={"Authorization": ""})
    health = await api.get(Health, "/health")
    assert document["info"]["version"] == health.version
