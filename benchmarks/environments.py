"""What a job's Python environment costs its start."""

import asyncio
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import uv

from benchmarks.figures import Figure, median
from xmcloud.worker.environments import Environments, Listed

PACKAGES = 20


def environments(rounds: int = 7) -> list[Figure]:
    """The first start with some requirements, and the second; uv's cache is warm."""
    cold, warm, floor = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = [_wheel(folder, f"package{number}") for number in range(PACKAGES)]
        wanted = Listed("".join(f"{wheel}\n" for wheel in wheels))
        for number in range(rounds + 1):
            cache = folder / str(number)
            cold.append(_seconds(cache, wanted))
            warm.append(_seconds(cache, wanted))
            floor.append(_empty(folder / f"empty{number}"))
    bare = median(floor[1:]) * 1e3
    return [
        Figure(
            f"environment step of a first start, {PACKAGES} packages",
            median(cold[1:]) * 1e3,
            "ms",
            bare,
            "uv venv alone",
        ),
        Figure(
            "environment step of a second start",
            median(warm[1:]) * 1e3,
            "ms",
            bare,
            "uv venv alone",
            limit=500,
        ),
    ]


def _seconds(cache: Path, wanted: Listed) -> float:
    """With what a worker that was just started knows: nothing."""
    began = time.perf_counter()
    made = asyncio.run(Environments(cache).environment(wanted, _step))
    taken = time.perf_counter() - began
    made.lease.release()
    return taken


async def _step(_: str, argv: Sequence[str]) -> None:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*argv, stdout=quiet, stderr=quiet)
    if code := await process.wait():
        raise subprocess.CalledProcessError(code, list(argv))


def _empty(path: Path) -> float:
    argv = [uv.find_uv_bin(), "venv", "--quiet", "--no-project", "--python", sys.executable]
    began = time.perf_counter()
    subprocess.run([*argv, str(path)], check=True)
    return time.perf_counter() - began


def _wheel(folder: Path, name: str) -> Path:
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in files.items():
            archive.writestr(inner, text)
        record = "".join(f"{inner},,\n" for inner in [*files, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)
    return path
