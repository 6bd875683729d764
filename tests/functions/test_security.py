"""Attacks on the API: by other sites, by large bodies, by addresses to fetch, by guessing."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.functions.api import TOKEN, Api, problem
from tests.functions.test_openapi import operations
from tests.functions.test_roles import bodies
from xmcloud.functions.http.limits import BODY_LIMIT
from xmcloud.functions.http.security import HEADERS

pytestmark = pytest.mark.anyio

EVIL = "https://evil.example"


async def test_every_answer_carries_the_headers(api: Api) -> None:
    answers = [
        await api.http.get("/v1/health"),
        await api.http.get("/v1/queues"),
        await api.http.get("/v1/queues", headers={"Authorization": ""}),
        await api.http.get("/nowhere"),
        await api.http.post("/v1/experiments", json={}),
        await api.http.put(f"/v1/blobs/{'0' * 64}", headers={"Content-Length": "99999999"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 401, 404, 422, 413]
    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
        assert "set-cookie" not in answer.headers
        assert "server" not in answer.headers


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_no_other_site_is_let_in(api: Api, method: str) -> None:
    asked = {
        "Origin": EVIL,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    preflight = await api.http.options("/v1/experiments", headers={**asked, "Authorization": ""})
    assert preflight.status_code == 405
    simple = await api.http.request(method, "/v1/experiments", headers={"Origin": EVIL})
    for answer in (preflight, simple):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "carried",
    [
        {"Cookie": f"token={TOKEN}; Authorization=Bearer {TOKEN}"},
        {"Proxy-Authorization": f"Bearer {TOKEN}"},
        {"X-Serverless-Authorization": f"Bearer {TOKEN}"},
    ],
)
@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"]
)
async def test_what_a_browser_adds_by_itself_opens_nothing(
    api: Api, carried: dict[str, str], media: str
) -> None:
    """Forms of other sites can send these bodies and cookies, and no Authorization."""
    headers = {**carried, "Authorization": "", "Content-Type": media, "Origin": EVIL}
    answer = await api.http.post(
        f"/v1/experiments?token={TOKEN}&access_token={TOKEN}",
        content=b'{"title": "t"}',
        headers=headers,
    )
    assert problem(answer).status == 401
    assert (await api.http.get("/v1/experiments")).json()["experiments"] == []


async def test_a_body_that_a_form_could_send_is_not_taken_for_json(api: Api) -> None:
    headers = {"Content-Type": "text/plain"}
    found = await api.refused(
        "POST", "/experiments", 422, content=b'{"title": "t"}', headers=headers
    )
    assert found.field == "body"


async def test_every_operation_refuses_a_body_that_is_too_large(api: Api) -> None:
    headers = {"Content-Length": str(BODY_LIMIT + 1)}
    tried = 0
    for operation in operations(api.app.openapi()):
        path = re.sub(r"\{[a-z_]+\}", "a" * 16, operation.path)
        answer = await api.http.request(operation.method, path, headers=headers, content=b"x")
        assert answer.status_code == 413, operation.name
        tried += 1
    assert tried > 60


@pytest.fixture
async def listener() -> AsyncIterator[tuple[str, list[str]]]:
    """An address, and who connected to it."""
    visitors: list[str] = []

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitors.append(str(writer.get_extra_info("peername")))
        writer.close()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield f"http://127.0.0.1:{port}", visitors


def pointed(value: Any, url: str) -> Any:
    """The same request, with the address in every text that may be one."""
    if isinstance(value, dict):
        return {name: pointed(each, url) for name, each in value.items()}
    if isinstance(value, list):
        return [pointed(each, url) for each in value]
    return f"{url}/x.git" if isinstance(value, str) and ("/" in value or "." in value) else value


async def test_nothing_makes_the_api_fetch_an_address(
    api: Api, listener: tuple[str, list[str]]
) -> None:
    url, visitors = listener
    headers = {
        "Host": url.removeprefix("http://"),
        "X-Forwarded-Host": url.removeprefix("http://"),
        "X-Forwarded-For": "127.0.0.1",
        "Referer": url,
        "Origin": url,
        "Link": f"<{url}>; rel=preload",
    }
    source = {
        "kind": "git_source",
        "repository": f"{url}/x.git",
        "commit": "0" * 40,
        "entrypoint": ["true"],
    }
    image = {"kind": "image", "image": f"{url.removeprefix('http://')}/x:latest"}
    experiment = await api.experiment()
    for executable in (source, image):
        job = {"name": "j", "spec": {"executable": executable, "environment": {"URL": url}}}
        await api.http.post(
            f"/v1/experiments/{experiment.id}/units",
            json={"units": [{"jobs": [job]}]},
            headers=headers,
        )
    for name, body in bodies(api.app.openapi()).items():
        method, path = name.split()
        path = path.replace("{id}", experiment.id).replace("{project}", "default")
        path = re.sub(r"\{[a-z_]+\}", "ant", path)
        content = {"json": pointed(body, url)} if isinstance(body, dict) else {"content": body}
        await api.http.request(method, path, headers=headers, **content)
    assert visitors == []


async def test_the_docs_run_only_the_scripts_they_name(api: Api) -> None:
    page = await api.http.get("/v1/docs")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src https://")
    scripts = re.findall(r"<script([^>]*)>", page.text)
    links = re.findall(r"<link([^>]*)>", page.text)
    outside = [tag for tag in (*scripts, *links) if "src=" in tag or "href=" in tag]
    assert len(outside) == 2
    for tag in outside:
        assert re.search(r'integrity="sha384-[A-Za-z0-9+/]{64}"', tag)
        assert 'crossorigin="anonymous"' in tag
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
