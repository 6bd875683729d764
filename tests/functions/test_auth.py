"""Who may call the API."""

import hmac
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from starlette.routing import Route

from tests.functions.api import TOKEN, Api, problem
from xmcloud.core import identity
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.errors import Unauthorized
from xmcloud.core.identity import Principal, Role
from xmcloud.core.protocol import Health
from xmcloud.functions.http.auth import TokenFile

pytestmark = pytest.mark.anyio

NO_PLANE = cast(ControlPlane, None)
PUBLIC = {"/v1/health", "/v1/ready", "/v1/openapi.json", "/v1/docs"}


def routes(api: Api) -> list[tuple[str, str]]:
    document = api.app.openapi()
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if path not in PUBLIC
    ]


async def test_health_needs_no_token(api: Api) -> None:
    response = await api.http.get("/v1/health", headers={"Authorization": ""})
    assert Health.model_validate_json(response.content).status == "ok"


async def test_every_other_route_needs_one(api: Api) -> None:
    found = routes(api)
    assert len(found) > 30
    for method, path in found:
        response = await api.http.request(method, path, headers={"Authorization": ""})
        assert response.status_code == 401, f"{method} {path}"
        assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        b"Bearer \xe9\xff",
    ],
)
async def test_a_token_that_is_none(api: Api, value: str | bytes) -> None:
    response = await api.http.get("/v1/queues", headers={b"Authorization": value})  # type: ignore[arg-type]
    found = problem(response)
    assert (found.status, found.type) == (401, "urn:xmcloud:problem:unauthorized")
    assert found.remedy


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_has_no_case(api: Api, scheme: str) -> None:
    response = await api.http.get("/v1/queues", headers={"Authorization": f"{scheme} {TOKEN}"})
    assert response.status_code == 200


async def test_tokens_are_compared_in_constant_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    path = tmp_path / "token"
    path.write_text("secret\n")
    path.chmod(0o600)
    file = TokenFile(path)
    assert await file.authenticate(NO_PLANE, "secret") == Principal.owning()
    assert await file.authenticate(NO_PLANE, "Secret") is None
    assert compared == [(b"secret", b"secret"), (b"Secret", b"secret")]


def test_the_tokens_of_machines_are_compared_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    id, whole, digest = identity.new_secret()
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.extend((one, other))
        return one == other

    monkeypatch.setattr(identity, "compare_digest", compare)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    token = identity.ApiToken(
        id=id,
        name="ci",
        project="default",
        role=Role.VIEWER,
        digest=digest,
        created_by="ada",
        created_at=at,
        expires_at=at,
    )
    parts = identity.split_token(whole)
    assert parts is not None
    assert token.opened_by(parts[1])
    assert compared == [digest.encode(), digest.encode()]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o777])
def test_a_token_file_that_others_can_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text("secret")
    path.chmod(mode)
    with pytest.raises(Unauthorized) as caught:
        TokenFile(path)
    assert caught.value.detail == (
        f"The token file {path} can be read by others (mode {mode:04o})."
    )
    assert caught.value.remedy == f"Make it private: chmod 600 {path}"


async def test_a_secret_that_is_mounted_into_a_container_has_another_mode(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("secret")
    path.chmod(0o444)
    assert await TokenFile(path, mounted=True).authenticate(NO_PLANE, "secret") is not None


def test_an_empty_token_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    with pytest.raises(Unauthorized, match="is empty"):
        TokenFile(path)


def test_only_known_paths_are_public(api: Api) -> None:
    served = {route.path for route in api.app.routes if isinstance(route, Route)}
    assert served - {path for _, path in routes(api)} <= PUBLIC
