"""The functions/ folder, deployed on this machine among what surrounds it on Google Cloud."""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest

from tests.deployment.cloud import Cloud, Push, opened_cloud, variables
from tests.deployment.source import archive, environment
from tests.functions.api import TOKEN
from tests.infra.conftest import TERRAFORM, Applied, applied, terraform
from tests.support.servers import Server, running
from xmcloud.local.emulators import EmulatorAddresses
from xmcloud.local.processes import LOOPBACK, free_port

__all__ = ["applied", "terraform"]

MACHINE = ("HOME", "LANG", "PATH", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Deployed:
    """What Cloud Functions has of the archive: the files alone, and programs for them."""

    archive: Path
    folder: Path
    programs: Path
    home: Path

    def environ(self, variables: Mapping[str, str], target: str, port: int) -> dict[str, str]:
        """That of a function: nothing of this process but what every program is given."""
        return {
            **{name: os.environ[name] for name in MACHINE if name in os.environ},
            **variables,
            "FUNCTION_SIGNATURE_TYPE": "http",
            "FUNCTION_TARGET": target,
            "HOST": LOOPBACK,
            "K_SERVICE": f"xmcloud-{target}",
            "PORT": str(port),
            "XMCLOUD_HOME": str(self.home),
        }


@pytest.fixture(scope="session")
def deployed(applied: Applied, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    """The archive as Terraform describes it, unpacked, with its requirements installed."""
    root = tmp_path_factory.mktemp("deployed")
    described = applied.one("archive_file").values
    folder, home = root / "workspace", root / "home"
    made = archive(described, TERRAFORM, root / "functions.zip")
    with ZipFile(made) as packed:
        packed.extractall(folder)
    programs = environment(root / "environment", folder / "requirements.txt")
    home.mkdir()
    (home / "token").write_text(TOKEN)
    (home / "token").chmod(0o444)
    return Deployed(made, folder, programs, home)


@dataclass(frozen=True, slots=True)
class FirstStart:
    """What the API answered of its health, and the modules that it had loaded then."""

    status: int
    health: str
    loaded: Mapping[str, str | None]


@pytest.fixture(scope="session")
def first_start(applied: Applied, deployed: Deployed) -> FirstStart:
    """It compiles the modules too, as building an image does, for all that start after it."""
    program = Path(__file__).with_name("first_start.py").read_text("utf-8")
    argv = [str(deployed.programs / "python"), "-P", "-c", program]
    environ = deployed.environ(variables(applied), "api", 0)
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    done = run(argv, env=environ, cwd=deployed.folder)
    assert (done.returncode, done.stderr) == (0, "")
    return FirstStart(**json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def on_emulators(emulators: EmulatorAddresses) -> Iterator[pytest.MonkeyPatch]:
    """Google's clients of this process as well."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in emulators.environment().items():
            patch.setenv(name, value)
        yield patch


@pytest.fixture(scope="module")
async def cloud(
    applied: Applied,
    emulators: EmulatorAddresses,
    on_emulators: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    one_event_loop: None,
) -> AsyncIterator[Cloud]:
    async with opened_cloud(applied, emulators, tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud


@dataclass(frozen=True, slots=True)
class Functions:
    """Every entry point in a process of its own."""

    clients: Mapping[str, httpx.AsyncClient]
    servers: Mapping[str, Server]

    @property
    def api(self) -> httpx.AsyncClient:
        return self.clients["api"]

    async def push(self, push: Push, headers: Mapping[str, str], body: Any) -> httpx.Response:
        return await self.clients[push.entry_point].post(
            f"/?{push.query}", headers=headers, json=body
        )


@pytest.fixture(scope="module")
async def functions(
    deployed: Deployed,
    first_start: FirstStart,
    cloud: Cloud,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Functions]:
    """Started together; each ends well when it is told to."""
    logs = tmp_path_factory.mktemp("functions")
    program = str(deployed.programs / "functions-framework")
    async with AsyncExitStack() as stack:
        clients: dict[str, httpx.AsyncClient] = {}
        servers: dict[str, Server] = {}
        for target in sorted(entry_points(cloud.applied)):
            port = free_port()
            environ = deployed.environ(cloud.variables, target, port)
            serving = running([program], logs / target, environ, deployed.folder)
            servers[target] = stack.enter_context(serving)
            url = f"http://{LOOPBACK}:{port}"
            client = httpx.AsyncClient(base_url=url, timeout=60, trust_env=False)
            clients[target] = await stack.enter_async_context(client)
        for target, server in servers.items():
            await asyncio.to_thread(server.ready, partial(_listens, clients[target]))
        clients["api"].headers["Authorization"] = f"Bearer {cloud.id_token()}"
        yield Functions(clients, servers)
        for server in servers.values():
            server.process.terminate()
        for target, server in servers.items():
            assert (target, server.ended(30)) == (target, 0)
        # The others were sent what is malformed, and say so.
        assert [t for t in ("api", "sweep") if "Traceback" in servers[t].output] == []


def entry_points(applied: Applied) -> set[str]:
    functions = applied.all("google_cloudfunctions2_function")
    return {str(each.values["build_config"][0]["entry_point"]) for each in functions}


def _listens(client: httpx.AsyncClient) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((client.base_url.host, client.base_url.port or 0)) == 0
