"""Real git servers: http and https with a password, ssh with a key."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.servers import Server, running

USER, PASSWORD = "ann", "correct horse+battery/staple"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
_SCRIPT = Path(__file__).with_name("http_server.py")


@dataclass(frozen=True)
class HttpServer:
    """`url` has no slash at its end."""

    url: str
    port: int
    server: Server

    def requests(self) -> list[dict[str, Any]]:
        lines = self.server.output.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def fetches(self) -> int:
        """How many commands asked for the repository and were let in."""
        asked = [r for r in self.requests() if "/info/refs" in r["path"]]
        return len([r for r in asked if int(r["status"]) == 200])


@contextmanager
def http_server(
    root: Path, log: Path, certificate: Path | None = None, user: str = USER
) -> Iterator[HttpServer]:
    argv = [sys.executable, str(_SCRIPT), str(root), user, PASSWORD]
    argv += [str(certificate)] if certificate else []
    with running(argv, log, os.environ) as server:
        server.ready(lambda: server.output.endswith("\n"))
        port = int(server.output)
        scheme = "https" if certificate else "http"
        yield HttpServer(f"{scheme}://127.0.0.1:{port}", port, server)


def make_certificate(path: Path) -> Path:
    """One for 127.0.0.1, signed by itself, with its key in the same file."""
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    make += ["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", "-"]
    done = subprocess.run(make, check=True, capture_output=True)
    with path.open("ab") as file:
        file.write(done.stdout)
    return path


def remember_password(home: Path, server: HttpServer) -> None:
    """As `git credential-store` keeps it."""
    login = f"{USER}:{quote(PASSWORD, safe='')}"
    (home / "passwords").write_text(f"http://{login}@127.0.0.1:{server.port}\n")
    helper = f"store --file {home / 'passwords'}"
    (home / ".gitconfig").write_text(f'[credential]\n\thelper = "{helper}"\n')


@dataclass(frozen=True)
class SshServer:
    port: int
    key: Path
    known_hosts: Path
    server: Server


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """An sshd that lets the owner of the key in, as the user who runs the tests."""
    assert SSHD is not None
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    port = _free_port()
    host_key, key = _key(folder / "host"), _key(folder / "key")
    shutil.copy(key.with_suffix(".pub"), folder / "authorized_keys")
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {host_key.with_suffix('.pub').read_text()}")
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": host_key,
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "yes",
    }
    config = folder / "sshd_config"
    config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    argv = [SSHD, "-D", "-e", "-f", str(config)]
    with running(argv, folder / "sshd.log", os.environ) as server:
        server.ready(lambda: "Server listening" in server.output)
        yield SshServer(port, key, known, server)


def _key(path: Path) -> Path:
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(make, check=True)
    return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
