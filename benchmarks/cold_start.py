"""How long a deployed API takes to start: `python -m benchmarks.cold_start`."""

import http.client
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.figures import Figure, median, show
from tests.deployment.source import environment
from xmcloud.local.emulators import find_installation, start_emulators
from xmcloud.local.processes import LOOPBACK, Processes, free_port

FUNCTIONS = Path(__file__).parents[1] / "functions"
TOKEN = "benchmark" * 4
HEALTH, FIRST_QUERY = "/v1/health", "/v1/experiments"
BARE = """
import functions_framework.aio
from starlette.responses import Response

@functions_framework.aio.http
async def api(request):
    return Response("ok")
"""
FASTAPI = """
import functions_framework.aio
from fastapi import FastAPI
from starlette.responses import Response

app = FastAPI()

@app.get("/v1/health")
async def health():
    return {"status": "ok"}

class Mounted(Response):
    def __init__(self):
        self.background = None

    async def __call__(self, scope, receive, send):
        await app(scope, receive, send)

@functions_framework.aio.http
async def api(request):
    return Mounted()
"""


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds: from the start of the process until it answered, and of processor time, its own
    and that of the processes which it started."""

    answered: float
    processor: float


def start(program: Path, folder: Path, variables: Mapping[str, str], path: str) -> Start:
    """Of the function `api` in the folder, until it answers GET of the path."""
    port = free_port()
    environ = {**variables, "FUNCTION_TARGET": "api", "HOST": LOOPBACK, "PORT": str(port)}
    began = time.perf_counter()
    process = subprocess.Popen([str(program)], cwd=folder, env=environ, stdin=subprocess.DEVNULL)
    try:
        while not _answers(port, path):
            if _has_ended(process.pid):
                raise click.ClickException(f"{folder.name} ended before it answered.")
            time.sleep(0.002)
        answered = time.perf_counter() - began
    finally:
        process.terminate()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Start(answered, used.ru_utime + used.ru_stime)


def _has_ended(pid: int) -> bool:
    """Leaves its exit code, and what it used, to be asked for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        status = connection.getresponse().status
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()
    if status != http.HTTPStatus.OK:
        raise click.ClickException(f"GET {path} was answered with {status}.")
    return True


@contextmanager
def deployed(emulators: bool) -> Iterator[tuple[Path, Path, dict[str, str]]]:
    """The program, folders with the functions `xmcloud`, `bare` and `fastapi`, and variables."""
    with tempfile.TemporaryDirectory(prefix="xmcloud-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        shutil.copytree(FUNCTIONS, folder / "xmcloud", ignore=shutil.ignore_patterns("__pycache__"))
        for function, text in {"bare": BARE, "fastapi": FASTAPI}.items():
            (folder / function).mkdir()
            (folder / function / "main.py").write_text(text)
        (folder / "token").write_text(TOKEN)
        (folder / "token").chmod(0o600)
        programs = environment(folder / "environment", FUNCTIONS / "requirements.txt")
        variables = {
            "FUNCTION_USE_ASGI": "true",
            "GOOGLE_CLOUD_PROJECT": "bench",
            "HOME": name,
            "PATH": os.environ["PATH"],
            "XMCLOUD_BUCKET": "bench",
            "XMCLOUD_BUILD_LOCATION": "europe-west4",
            "XMCLOUD_HOME": name,
            "XMCLOUD_PROFILE": "gcp",
            "XMCLOUD_REGISTRY": "registry.example/bench",
            "XMCLOUD_VERTEX_LOCATIONS": "europe-west4",
        }
        if emulators:
            processes = Processes(folder / "emulators")
            stack.callback(processes.stop, 10)
            installation = find_installation(os.environ)
            variables |= start_emulators(processes, installation, "bench").environment()
        yield programs / "functions-framework", folder, variables


def cold_starts(count: int, emulators: bool) -> list[Figure]:
    """One after the other in turn, so that whatever else the machine does slows all of them."""
    measured = {
        ("bare", HEALTH): list[Start](),
        ("fastapi", HEALTH): list[Start](),
        ("xmcloud", HEALTH): list[Start](),
    }
    if emulators:
        measured["xmcloud", FIRST_QUERY] = []
    with deployed(emulators) as (program, folder, variables):
        for turn in range(count + 1):
            for (function, path), starts in measured.items():
                one = start(program, folder / function, variables, path)
                if turn:  # the first compiles the modules, as building an image does
                    starts.append(one)
    floor = measured.pop(("bare", HEALTH))
    return [
        figure
        for (function, path), starts in measured.items()
        for figure in _figures(f"{function}: start to GET {path}", starts, floor)
    ]


def _figures(what: str, starts: list[Start], floor: list[Start]) -> list[Figure]:
    answered, processor = ([getattr(s, n) for s in starts] for n in ("answered", "processor"))
    limit = 1500.0 if what.startswith("xmcloud") else None
    return [
        Figure(
            what,
            median(answered) * 1e3,
            "ms",
            median([start.answered for start in floor]) * 1e3,
            "a bare function",
            limit,
        ),
        Figure(
            f"{what}, processor time",
            median(processor) * 1e3,
            "ms",
            median([start.processor for start in floor]) * 1e3,
            "a bare function",
        ),
    ]


@click.command()
@click.option("--starts", default=9, help="Of each kind.")
@click.option("--emulators", is_flag=True, help="Measure to the first answer from Firestore too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def main(starts: int, emulators: bool, as_json: bool) -> None:
    """Measure the start of the API as it is deployed."""
    show(cold_starts(starts, emulators), as_json)


if __name__ == "__main__":
    main()
