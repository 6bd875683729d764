"""Python environments, made once for each set of requirements and shared."""

import hashlib
import json
import shutil
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import uv

from xmcloud.worker.cache import locked

Step = Callable[[str, Sequence[str]], Awaitable[None]]
"""Runs a named step of the setup with its output in the job's log; raises `SetupFailed`."""


def normalised(requirements: str) -> str:
    """The requirements without comments and blank lines, sorted: what makes them the same."""
    lines = (line.split(" #")[0].strip() for line in requirements.splitlines())
    return "".join(f"{line}\n" for line in sorted({x for x in lines if x and x[0] != "#"}))


class Environments:
    """Folders made by uv, at their final place, under a lock; a marker tells when one is ready."""

    def __init__(self, cache: Path, python: str = sys.executable) -> None:
        self._folder = cache / "environments"
        self._python = python

    async def folder(self, requirements: str, step: Step) -> Path:
        """The environment; without a subprocess when it is there. Raises what `step` does."""
        wanted = normalised(requirements)
        path = self._folder / self._key(wanted)
        if not _ready(path):
            self._folder.mkdir(parents=True, exist_ok=True)
            async with locked(path.with_suffix(".lock")):
                if not _ready(path):
                    await self._make(path, wanted, step)
        return path

    def _key(self, wanted: str) -> str:
        parts = [sys.version, sysconfig.get_platform(), self._python, wanted]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    async def _make(self, path: Path, wanted: str, step: Step) -> None:
        tool = uv.find_uv_bin()
        shutil.rmtree(path, ignore_errors=True)
        create = [tool, "venv", "--quiet", "--no-project", "--python", self._python, str(path)]
        await step("create the environment", create)
        listed = path / "requirements.txt"
        listed.write_text(wanted, encoding="utf-8")
        if wanted:
            target = ["--python", str(path / "bin" / "python")]
            install = [tool, "pip", "install", "--compile-bytecode", *target]
            install += ["--requirements", str(listed)]
            await step("install the requirements", install)
        (path / "ready").touch()


def _ready(path: Path) -> bool:
    """The marker is there, and so is the interpreter that the environment was made from."""
    return (path / "ready").exists() and (path / "bin" / "python").exists()
