"""From the definition of a job to what can be started."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xmcloud.core.arguments import render
from xmcloud.core.models import Binary, Command, Job, PythonSource
from xmcloud.worker.cache import BlobCache
from xmcloud.worker.client import DamagedBlob, Refused
from xmcloud.worker.environments import Environments, Step

if sys.version_info >= (3, 12):
    import tarfile
else:  # Python 3.11 has the safe extraction from its fourth release on
    from backports import tarfile

_KEPT = "XMCLOUD_PROCESS_MARK"
_OTHER_PYTHON = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")


class SetupFailed(Exception):
    """A job could not be started; says which step failed and what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is started. `executable` is the file when `argv[0]` is only how it is called."""

    argv: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    executable: Path | None = None


def base_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The worker's own without its settings and secrets."""
    return {
        name: value
        for name, value in inherited.items()
        if not name.startswith("XMCLOUD_") or name == _KEPT
    }


def job_environment(job: Job, results: Path) -> dict[str, str]:
    """What tells a process which job it is."""
    return {
        "XMCLOUD_EXPERIMENT_ID": job.experiment_id,
        "XMCLOUD_UNIT": str(job.unit),
        "XMCLOUD_JOB_NAME": job.name,
        "XMCLOUD_RESULTS": str(results),
        **mark(job.id, job.fence),
    }


def mark(job_id: str, fence: int) -> dict[str, str]:
    """The variables that all processes of an attempt inherit and no others have."""
    return {"XMCLOUD_JOB_ID": job_id, "XMCLOUD_ATTEMPT": str(fence)}


class Preparation:
    """Makes a `Plan` of a job, in the folder of its attempt."""

    def __init__(self, blobs: BlobCache, environments: Environments, base: Mapping[str, str]):
        self._blobs = blobs
        self._environments = environments
        self.base = {"PYTHONUNBUFFERED": "1", **base}

    async def plan(self, job: Job, folder: Path, step: Step) -> Plan:
        """Raises `SetupFailed` and OSError."""
        executable, arguments = job.spec.executable, render(job.spec.arguments)
        own = {**job.spec.environment, **job_environment(job, folder / "results.json")}
        if isinstance(executable, Command):
            where = _directory(executable, folder)
            return Plan([*executable.command, *arguments], where, {**self.base, **own})
        if isinstance(executable, Binary):
            file = await self._blob(executable.file, "the binary")
            argv = [executable.name, *arguments]
            return Plan(argv, _work(folder), {**self.base, **own}, executable=file)
        return await self._python(executable, arguments, folder, own, step)

    async def _python(
        self,
        source: PythonSource,
        arguments: list[str],
        folder: Path,
        own: Mapping[str, str],
        step: Step,
    ) -> Plan:
        archive = await self._blob(source.archive, "the source archive")
        work = _work(folder)
        await asyncio.to_thread(_extract, archive, work)
        where = (work / source.directory).resolve()
        if not where.is_relative_to(work.resolve()) or not where.is_dir():
            raise SetupFailed(
                f"The source archive has no folder {source.directory!r} to run in."
                " Name a folder of the archive as its directory."
            )
        venv = await self._environments.folder(source.requirements, step)
        inherited = {k: v for k, v in self.base.items() if k not in _OTHER_PYTHON}
        path = f"{venv / 'bin'}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        environment = {**inherited, "PATH": path, "VIRTUAL_ENV": str(venv), **own}
        return Plan([*source.entrypoint, *arguments], where, environment)

    async def _blob(self, digest: str, what: str) -> Path:
        try:
            return await self._blobs.file(digest)
        except (Refused, DamagedBlob) as error:
            raise SetupFailed(f"Cannot fetch {what}: {error} Launch the job again.") from error


def _work(folder: Path) -> Path:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return work


def _directory(command: Command, folder: Path) -> Path:
    if command.directory is None:
        return _work(folder)
    directory = Path(command.directory)
    if not directory.is_absolute():
        raise SetupFailed(
            f"The working directory {command.directory!r} is not an absolute path."
            " Name it from the root on, as the worker's machine knows it."
        )
    if not directory.is_dir():
        raise SetupFailed(
            f"The working directory {command.directory} does not exist on this machine."
            " Create it here, or run the job on a machine that has it."
        )
    return directory


def _extract(archive: Path, target: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise SetupFailed(f"Cannot unpack the source archive: {error}.") from error
