"""The commands that make an environment."""

import os
import re
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uv

from xmcloud.worker.environments.lines import normalised
from xmcloud.worker.environments.pylock import py_lock
from xmcloud.worker.environments.torch import backend
from xmcloud.worker.environments.wanted import Hashed, Listed, PoetryLock, PyLock, UvLock
from xmcloud.worker.setup import SetupFailed, StepFailed

Step = Callable[[str, Sequence[str]], Awaitable[None]]
"""Runs a named step of the setup with its output in the job's log; raises `SetupFailed`."""

_VERSION = re.compile(r"^[23]\.\d+(\.\d+)?$")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What uv reads, in files by name, and what it is told besides."""

    files: dict[str, str]
    options: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is to be installed."""
        return next(iter(self.files.values()))


def recipe(found: Listed | Hashed | PoetryLock | PyLock, torch_backend: str) -> Recipe:
    """How to install it; PyTorch for that backend, unless the requirements say which."""
    match found:
        case Listed():
            files = {"requirements.txt": normalised(found.text)}
            options = ["--compile-bytecode", *backend(found.text, torch_backend)]
            if found.constraints:
                files["constraints.txt"] = normalised(found.constraints)
            return Recipe(files, tuple(options))
        case Hashed():
            text = normalised(found.text)
            return Recipe({"requirements.txt": text}, ("--compile-bytecode", "--require-hashes"))
        case PoetryLock():
            # Which index has the file does not matter: the lock knows it by its hash.
            exact = ("--no-deps", "--index-strategy", "unsafe-best-match")
            text = normalised(found.text)
            return Recipe({"requirements.txt": text}, ("--compile-bytecode", *exact))
        case PyLock():
            options = ["--compile-bytecode", "--preview-features", "pylock"]
            return Recipe({"pylock.toml": found.text}, tuple(options))


async def exported(found: UvLock, scratch: Path, step: Step) -> PyLock:
    """The part of a uv.lock that its project needs. Raises what `step` does."""
    os.mkdir(scratch)
    try:
        argv = [uv.find_uv_bin(), "export", "--quiet", "--frozen", "--format", "pylock.toml"]
        argv += ["--no-header", "--no-emit-local", "--project", str(found.project)]
        argv += ["--output-file", str(scratch / "pylock.toml")]
        await step("read uv.lock", argv)
        return PyLock(py_lock(scratch / "pylock.toml", scratch).text, found.code)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


async def create(path: Path, python: str, default: str, step: Step) -> None:
    """An empty environment. Raises what `step` does, and `SetupFailed` for an unknown version."""
    tool = uv.find_uv_bin()
    argv = [tool, "venv", "--quiet", "--no-project", "--python", python or default, str(path)]
    try:
        await step("create the environment", argv)
    except StepFailed as error:
        if not python:
            raise
        raise SetupFailed(
            f"Python {python} is neither on this machine nor could it be downloaded. Install it"
            f" here (`uv python install {python}`), or ask for another.\n{error.output}"
        ) from error


def checked(python: str) -> str:
    """A version as people write it. Raises `SetupFailed`."""
    if python and not _VERSION.match(python):
        raise SetupFailed(f"{python!r} is no version of Python. Write it as 3.12 or 3.12.4.")
    return python


async def install(path: Path, wanted: Recipe, step: Step) -> None:
    """Into the environment. Raises what `step` does."""
    if not wanted.text.strip():
        return
    argv = [uv.find_uv_bin(), "pip", "install", "--python", str(path / "bin" / "python")]
    argv += wanted.options
    files = [path / name for name in wanted.files]
    for file in files:
        argv += ["--constraints" if file.name == "constraints.txt" else "--requirements", str(file)]
    try:
        _write(wanted, path)
        await step("install the requirements", argv)
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def _write(wanted: Recipe, folder: Path) -> None:
    """For nobody else to read: requirements may hold credentials of an index."""
    for name, text in wanted.files.items():
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
