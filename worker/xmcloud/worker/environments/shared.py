"""Environments, made once for what makes them and shared by the workers of a machine."""

import asyncio
import hashlib
import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xmcloud.core.names import random_id
from xmcloud.worker.cache import locked
from xmcloud.worker.disk import DiskFull
from xmcloud.worker.environments import torch
from xmcloud.worker.environments.freeze import freeze
from xmcloud.worker.environments.making import (
    Recipe,
    Step,
    checked,
    create,
    exported,
    install,
    recipe,
)
from xmcloud.worker.environments.wanted import Code, Found, UvLock
from xmcloud.worker.eviction import Lease, Room, disk_usage

_TO_FREE_BYTES = 2**30
_FACTS = "environment.json"


@dataclass(frozen=True, slots=True)
class Environment:
    """One that is there for as long as its lease is held; `freeze` is what was installed.

    `code` are folders of the checkout for the job's PYTHONPATH.
    """

    path: Path
    python: str
    freeze: bytes = field(repr=False)
    code: Code = ()
    lease: Lease = field(repr=False, compare=False, kw_only=True)


class Environments:
    """Folders made by uv, at their final place, under a lock; their facts tell when one is ready.

    `cuda` is the newest version that the machine's driver knows, '' without a GPU; `variables`
    are those of uv.
    """

    def __init__(
        self,
        cache: Path,
        python: str = sys.executable,
        *,
        cuda: str = "",
        room: Room | None = None,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        self._folder = cache / "environments"
        self._python = python
        self._cuda = cuda
        self._torch_backend = torch.of_machine(cuda, variables)
        self._room = room or Room(cache)

    async def environment(self, found: Found, step: Step, python: str = "") -> Environment:
        """Of that version of Python, the worker's own by default.

        Without a subprocess when it is there, unless a uv.lock must be read. Raises what `step`
        does, and `SetupFailed`.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        python = self._unless_own(checked(python))
        code = found.code
        if isinstance(found, UvLock):
            scratch = self._folder / f"reading-{random_id()}"
            found = await exported(found, scratch, step)
        wanted = recipe(found, self._torch_backend)
        path = self._folder / self._key(wanted, python)
        lease = Lease(path.with_suffix(".used"))
        try:
            if not _ready(path):
                await self._make(path, wanted, step, python)
            facts = json.loads((path / _FACTS).read_bytes())
            frozen = (path / "freeze.txt").read_bytes()
            return Environment(path, facts["python"], frozen, code, lease=lease)
        except BaseException:
            lease.release()
            raise

    def _unless_own(self, python: str) -> str:
        """'' where the worker's interpreter is of that version."""
        own = ".".join(map(str, sys.version_info[:3]))
        is_own = self._python == sys.executable and f"{own}.".startswith(f"{python}.")
        return "" if is_own else python

    def _key(self, wanted: Recipe, python: str) -> str:
        interpreter = [python] if python else [sys.version, self._python]
        parts = [interpreter, sysconfig.get_platform(), self._cuda, wanted.files, wanted.options]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    async def _make(self, path: Path, wanted: Recipe, step: Step, python: str) -> None:
        try:
            async with locked(path.with_suffix(".lock")):
                if _ready(path):
                    return
                await _removed(path)
                try:
                    await create(path, python, self._python, step)
                    await install(path, wanted, step)
                    await asyncio.to_thread(self._finish, path, wanted)
                finally:
                    if not _ready(path):
                        await _removed(path)
        except DiskFull:
            await self._room.trim(_TO_FREE_BYTES)
            raise
        await self._room.trim()

    def _finish(self, path: Path, wanted: Recipe) -> None:
        """Raises `SetupFailed` when it is not what the machine needs."""
        (site,) = path.glob("lib/python*/site-packages")
        torch.check(site, wanted.text, self._cuda)
        (path / "freeze.txt").write_bytes(freeze(site))
        facts = {"python": _version(path), "bytes": disk_usage(path)}
        unfinished = path / f"{_FACTS}.new"
        unfinished.write_text(json.dumps(facts), encoding="utf-8")
        os.replace(unfinished, path / _FACTS)


def _ready(path: Path) -> bool:
    """The facts are there, and so is the interpreter that the environment was made from."""
    return (path / _FACTS).exists() and (path / "bin" / "python").exists()


async def _removed(path: Path) -> None:
    await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)


def _version(path: Path) -> str:
    settings = (path / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("=", 1) for line in settings if "=" in line)
    return next(value.strip() for name, value in pairs if name.strip() == "version_info")
