"""Small wheels, and an index that serves them."""

import base64
import hashlib
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def build_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    needs: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """A wheel with a module of the package's name, and its path."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    required = "".join(f"Requires-Dist: {need}\n" for need in needs)
    packed = {
        **(files or {f"{module}.py": f"VERSION = {version!r}\n"}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in packed.items():
            archive.writestr(inner, text)
        record = "".join(f"{inner},,\n" for inner in [*packed, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)
    return path


def sha256(wheel: Path) -> str:
    return f"sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"


class Index:
    """A package index on loopback; `add` a wheel and it is there."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.password = ""
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple"

    def wheel_url(self, wheel: Path) -> str:
        return f"http://127.0.0.1:{self.port}/{wheel.name}"

    def add(
        self,
        name: str,
        version: str = "1.0",
        *,
        needs: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        index: str = "simple",
    ) -> Path:
        wheel = build_wheel(self.folder, name, version, needs=needs, files=files)
        page = self.folder / index / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        with page.open("a") as file:
            fragment = sha256(wheel).replace(":", "=")
            file.write(f'<a href="/{wheel.name}#{fragment}">{wheel.name}</a>\n')
        return wheel


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *arguments: object, index: Index) -> None:
        self._index = index
        super().__init__(*arguments, directory=str(index.folder))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._index.asked.append(self.path)
        wanted = base64.b64encode(f"user:{self._index.password}".encode()).decode()
        if self._index.password and self.headers["Authorization"] != f"Basic {wanted}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        return


@contextmanager
def serving(folder: Path) -> Iterator[Index]:
    """An index of the wheels that are added to it."""
    (folder / "simple").mkdir(parents=True)
    index = Index(folder, 0)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, index=index)) as server:
        index.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()
