"""A worker's part in a checkout, and servers to fetch from."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from tests.git.servers import (
    SSHD,
    HttpServer,
    SshServer,
    http_server,
    make_certificate,
    ssh_server,
)
from tests.support.servers import Server
from xmcloud.core.names import random_id
from xmcloud.core.specs import GitSource
from xmcloud.worker.family import set_subreaper
from xmcloud.worker.git.checkout import Revisions
from xmcloud.worker.git.hosts import GitHost, Hosts
from xmcloud.worker.process import Launcher
from xmcloud.worker.setup import LOG, Access
from xmcloud.worker.steps import Steps

_SERVERS: set[psutil.Process] = set()


@dataclass
class Machine:
    """A worker's machine: its folders, its environment and what its settings say about git."""

    folder: Path
    launcher: Launcher
    base: dict[str, str]
    hosts: dict[str, GitHost] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    attempts: Path | None = None
    before_step: Callable[[str], None] = lambda name: None
    log: str = ""

    @property
    def revisions(self) -> Revisions:
        return Revisions(self.folder / "cache", Hosts(self.hosts, self.variables), self.base)

    def steps(self, attempt: Path) -> Steps:
        attempt.mkdir(parents=True)
        return Steps(self.launcher, attempt, {"XMCLOUD_JOB_ID": attempt.name}, self.base)

    async def check_out(
        self,
        repository: str | Path,
        commit: str,
        *,
        diff: bytes | None = None,
        bundle: Path | None = None,
    ) -> Path:
        """The folder of the files; what the steps printed is in `log`."""
        url = f"file://{repository}" if isinstance(repository, Path) else repository
        source = GitSource(repository=url, commit=commit, entrypoint=("python",))
        attempt = (self.attempts or self.folder / "attempts") / random_id()
        steps = self.steps(attempt)

        async def step(name: str, argv: Sequence[str], access: Access | None = None, /) -> None:
            self.before_step(name)
            await steps(name, argv, access)

        patch = attempt / "patch"
        if diff is not None:
            patch.write_bytes(diff)
        changes = patch if diff is not None else None
        work = attempt / "work"
        try:
            await self.revisions.check_out(source, work, step, diff=changes, bundle=bundle)
        finally:
            log = attempt / LOG
            self.log = log.read_text() if log.exists() else ""
            left = {path.name for path in attempt.iterdir()} - {"work", "patch", LOG}
            assert left == set()
        return work


def missing(how: str) -> NoReturn:
    """Skips, unless services are required."""
    if os.environ.get("XMCLOUD_REQUIRE_SERVICES") == "1":
        pytest.fail(how, pytrace=False)
    pytest.skip(how)


@pytest.fixture(autouse=True)
def _no_process_survives() -> Iterator[None]:
    """Orphans are collected here, as a worker does."""
    own = psutil.Process()
    before = set(own.children())
    yield
    set_subreaper(False)
    orphans = [child for child in own.children() if child not in before | _SERVERS]
    _, alive = psutil.wait_procs(orphans, timeout=20)
    assert alive == []


@contextmanager
def _known(server: Server) -> Iterator[None]:
    """A server outlives the test that was the first to need it."""
    process = psutil.Process(server.process.pid)
    _SERVERS.add(process)
    yield
    _SERVERS.remove(process)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
async def machine(tmp_path: Path, home: Path) -> AsyncIterator[Machine]:
    base = {"PATH": os.environ["PATH"], "HOME": str(home)}
    launcher = Launcher(tmp_path / "worker")
    yield Machine(tmp_path / "machine", launcher, base)
    await launcher.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories below it are served; those below `private` to who has the password."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def http(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with (
        http_server(served, tmp_path_factory.mktemp("http") / "log") as server,
        _known(server.server),
    ):
        yield server


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "server.pem")


@pytest.fixture(scope="session")
def https(
    served: Path, certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpServer]:
    """Takes the password as a token: the user is what a token's is by default."""
    log = tmp_path_factory.mktemp("https") / "log"
    with (
        http_server(served, log, certificate, user="x-access-token") as server,
        _known(server.server),
    ):
        yield server


@pytest.fixture(scope="session")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    if SSHD is None:
        missing("sshd: install the package openssh-server")
    with ssh_server(tmp_path_factory.mktemp("ssh")) as server, _known(server.server):
        yield server
