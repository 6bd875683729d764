"""This machine's settings of pip, for an image whose builds see nothing of it but its network."""

import ast
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_URLS = ("index-url", "extra-index-url", "find-links")
# What speaks of this machine's files or of the tests' own environment stays behind.
_KEPT = ("default-timeout", "no-index", "retries", "timeout", "trusted-host")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def pip_settings() -> dict[str, str]:
    """What pip was told here by files and variables, the variables last."""
    argv = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    settings: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        scope, _, option = name.rpartition(".")
        if scope in (":env:", "global", "install"):
            settings[option] = str(ast.literal_eval(value))
    return settings


def certificates(settings: Mapping[str, str]) -> bytes | None:
    """The authorities that this machine trusts; None where Python knows of no such file."""
    path = settings.get("cert") or ssl.get_default_verify_paths().cafile
    return Path(path).read_bytes() if path else None


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        return


@contextmanager
def shelf(folder: Path) -> Iterator[str]:
    """A web server on loopback with what this folder links to; yields its address."""
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def pip_files(settings: Mapping[str, str], folder: Path, address: str) -> dict[str, bytes]:
    """pip.conf and what it names, by path; local indices are linked into the shelf's folder."""
    lines = ["[global]"]
    lines += [f"{name} = {settings[name]}" for name in _KEPT if name in settings]
    for name in _URLS:
        if urls := [_reachable(url, folder, address) for url in settings.get(name, "").split()]:
            lines.append(f"{name} = {' '.join(urls)}")
    files: dict[str, bytes] = {}
    if constraints := settings.get("constraint", "").split():
        text = b"\n".join(Path(path).read_bytes() for path in constraints)
        files["etc/pip-constraints.txt"] = text + b"\n"
        lines.append("constraint = /etc/pip-constraints.txt")
    if (trusted := certificates(settings)) is not None:
        files[CERTIFICATES.lstrip("/")] = trusted
        lines.append(f"cert = {CERTIFICATES}")
    files["etc/pip.conf"] = "\n".join([*lines, ""]).encode()
    return files


def _reachable(url: str, folder: Path, address: str) -> str:
    """The URL itself or, of a folder here, the shelf's; an index may point beside its folder."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "file"):
        return url
    path = Path(unquote(parts.path))
    number = len(list(folder.iterdir()))
    (folder / str(number)).symlink_to(path.parent)
    return f"{address}/{number}/{path.name}/"
