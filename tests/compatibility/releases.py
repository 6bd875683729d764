"""The release before this one, from its wheel, and its processes beside those of this one."""

import io
import os
import subprocess
import sys
import zipfile
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.stack import kill_all, processes_of, until
from tests.e2e.terminal import DEADLINE
from tests.support.tars import tarfile
from xmcloud.local.home import Home
from xmcloud.local.processes import free_port

(WHEEL,) = Path(__file__).parent.glob("xmcloud-*.whl")
OLD_VERSION = WHEEL.name.split("-")[1]
SNAPSHOTS = Path(__file__).parent / "snapshots"
"""Homes that releases left."""

SNAPSHOT = SNAPSHOTS / f"{OLD_VERSION}.tar.xz"
"""`python -m tests.compatibility` makes it again."""


@dataclass(frozen=True)
class Release:
    """Code to run: the tree's own, or what lies in `folder`."""

    folder: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        return {} if self.folder is None else {"PYTHONPATH": str(self.folder)}


NOW = Release()

_WHERE = """
import sys, xmcloud.core.version, xmcloud.cli.main, xmcloud.local.serve, xmcloud.worker.main
print(xmcloud.core.version.VERSION)
for name, module in sys.modules.items():
    if name.startswith("xmcloud."):
        print(module.__file__)
"""


def unpacked(folder: Path) -> Release:
    """The release of the wheel; fails if something else runs in its place."""
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(folder)
    release = Release(folder)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _WHERE],
        env={**os.environ, **release.variables},
        capture_output=True,
        text=True,
        check=True,
    )
    version, *modules = done.stdout.split()
    assert version == OLD_VERSION
    assert [each for each in modules if not Path(each).is_relative_to(folder)] == []
    return release


def unpack(snapshot: Path, home: Path) -> None:
    """The home that it was made of."""
    with tarfile.open(snapshot) as tar:
        tar.extractall(home, filter="data")


OVER = {"completed", "failed", "stopped"}


@dataclass
class Site:
    """A home, and the processes that work in it; each is of one release.

    Requests are plain JSON, which is what both releases understand.
    """

    home: Home
    cache: Path
    lease: float = 3600.0
    _started: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        own = {name: v for name, v in os.environ.items() if not name.startswith("XMCLOUD_")}
        return own | {
            "XMCLOUD_HOME": str(self.home.path),
            "XMCLOUD_CACHE": str(self.cache),
            "XMCLOUD_PROFILE": "embedded",
            "XMCLOUD_LEASE_SECONDS": str(self.lease),
        }

    @property
    def log(self) -> Path:
        return self.home.path / "processes.log"

    @property
    def token(self) -> str:
        return (self.home.path / "token").read_text().strip()

    @cached_property
    def http(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(headers=headers, trust_env=False, timeout=60)

    def call(self, method: str, path: str, **request: Any) -> Any:
        """The answer's JSON."""
        control = self.home.control()
        assert control is not None
        response = self.http.request(method, f"{control.url}/v1{path}", **request)
        assert response.is_success, f"{method} {path}: {response.text}"
        return response.json() if response.content else None

    def control_plane(self, release: Release) -> "subprocess.Popen[bytes]":
        """One that listens, at the address of the one before."""
        self.home.prepare()
        port = self.home.last_port() or free_port()
        words = [f"--home={self.home.path}", f"--port={port}"]
        child = self._start(release, "xmcloud.local.serve", *words)
        self._until(child, lambda: self.home.control() is not None, "the control plane listens")
        return child

    def worker(self, release: Release, *queues: str) -> "subprocess.Popen[bytes]":
        """One that is connected."""
        before = self._sessions()
        words = ["worker", "start", "--name=ant", "--pool=local", "--slots=2"]
        served = [f"--queue={queue}" for queue in queues]
        child = self._start(release, "xmcloud.cli", *words, *served)
        self._until(child, lambda: not before >= self._sessions(), "the worker is connected")
        return child

    def _sessions(self) -> set[str]:
        return {each["id"] for each in self.call("GET", "/workers")["sessions"]}

    def _start(self, release: Release, module: str, *words: str) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *words],
                env=self.variables | release.variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(child)
        return child

    def _until(
        self, child: "subprocess.Popen[bytes]", condition: Callable[[], bool], what: str
    ) -> None:
        def holds() -> bool:
            assert child.poll() is None, self.log.read_text()
            return condition()

        until(holds, what)

    def cli(self, release: Release, *words: str, status: int = 0) -> str:
        """What the command prints, of which errors are a part."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "xmcloud.cli", *words],
            cwd=self.home.path,
            env=self.variables | self._address | release.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout if status == 0 else done.stdout + done.stderr

    @property
    def _address(self) -> dict[str, str]:
        """Said, lest a command start a control plane of its own release."""
        control = self.home.control()
        return {} if control is None else {"XMCLOUD_URL": control.url, "XMCLOUD_TOKEN": self.token}

    def end(self, child: "subprocess.Popen[bytes]") -> None:
        """As who runs it stops it."""
        child.terminate()
        child.wait(DEADLINE)

    def close(self) -> None:
        """Nothing is asked to end: whatever names the home is killed."""
        for child in self._started:
            child.kill()
            child.wait()
        kill_all(processes_of(self.home.path))
        self.http.close()

    def experiment(self, title: str, **more: Any) -> str:
        body = {"title": title, "creator": "ada", **more}
        return str(self.call("POST", "/experiments", json=body)["id"])

    def submit(self, experiment: str, *units: list[dict[str, Any]]) -> list[str]:
        """The jobs' ids; each unit has the jobs of a group."""
        body = {"units": [{"jobs": unit} for unit in units]}
        made = self.call("POST", f"/experiments/{experiment}/units", json=body)["jobs"]
        return [job["id"] for job in made]

    def job(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/jobs/{id}")
        return found

    def until(self, id: str, *states: str) -> dict[str, Any]:
        """The job, as soon as it is in one of the states."""
        until(lambda: self.job(id)["state"] in states, f"a job is {' or '.join(states)}")
        return self.job(id)

    def over(self, id: str) -> dict[str, Any]:
        """The job, as soon as it has ended."""
        return self.until(id, *OVER)

    def session(self, id: str) -> dict[str, Any]:
        (found,) = [each for each in self.call("GET", "/workers")["sessions"] if each["id"] == id]
        return dict(found)

    def output(self, id: str) -> str:
        text = b""
        while piece := b64decode(
            self.call("GET", f"/jobs/{id}/log", params={"offset": len(text)})["data"]
        ):
            text += piece
        return text.decode()

    def archive(self, **files: str) -> str:
        """The digest of an archive with those Python files."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, text in files.items():
                member = tarfile.TarInfo(f"{name}.py")
                member.size = len(text.encode())
                tar.addfile(member, io.BytesIO(text.encode()))
        digest = sha256(packed.getvalue()).hexdigest()
        headers = {"Content-Type": "application/octet-stream"}
        self.call("PUT", f"/blobs/{digest}", content=packed.getvalue(), headers=headers)
        return digest


def shell(script: str, name: str = "job", **more: Any) -> dict[str, Any]:
    """A job; `queue` is one of the fields."""
    spec = more.pop("spec", {})
    command = {"kind": "command", "command": ["sh", "-c", script]}
    return {"name": name, "spec": {"executable": command, "pool": "local", **spec}, **more}
