"""A machine with uv, and an index on loopback as the only one it knows."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.wheels import Index, serving
from xmcloud.worker.environments import Environment, Environments, Found
from xmcloud.worker.setup import StepFailed


class Steps:
    """Runs steps and remembers what they were and what they printed."""

    def __init__(self, index: Index, cache: Path) -> None:
        self.names: list[str] = []
        self.argv: list[Sequence[str]] = []
        self.log = ""
        self.look: Callable[[], None] = lambda: None
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("UV_", "PIP_"))}
        self.environment = {
            **inherited,
            "UV_CACHE_DIR": str(cache),
            "UV_DEFAULT_INDEX": index.url,
            "UV_NO_CONFIG": "1",
        }

    async def __call__(self, name: str, argv: Sequence[str]) -> None:
        self.names.append(name)
        self.argv.append(argv)
        self.look()
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment
        )
        output, _ = await process.communicate()
        self.log += output.decode()
        if process.returncode:
            raise StepFailed(name, Path(argv[0]).name, process.returncode, output.decode())


class Checkout:
    """A repository's files, as a job finds them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, **files: str) -> None:
        """`a__b_toml` is a/b.toml."""
        for name, text in files.items():
            stem, _, suffix = name.rpartition("_")
            path = self.root / f"{stem.replace('__', '/')}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with serving(tmp_path / "index") as served:
        yield served


@pytest.fixture
def steps(index: Index, tmp_path: Path) -> Steps:
    return Steps(index, tmp_path / "uv")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "work").mkdir()
    return Checkout(tmp_path / "work")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


async def made(cache: Path, found: Found, steps: Steps, cuda: str = "") -> Environment:
    return await Environments(cache, cuda=cuda).environment(found, steps)


def frozen(environment: Environment) -> list[str]:
    return environment.freeze.decode().splitlines()


def printed_by(environment: Environment, program: str) -> str:
    run = [str(environment.path / "bin" / "python"), "-c", program]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
