"""From the definition of a job to what can be started."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xmcloud.core.arguments import command_line
from xmcloud.core.models import Job
from xmcloud.core.specs import Argument, Binary, Command, GitSource, Image, PythonSource
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.cache import BlobCache
from xmcloud.worker.client import DamagedBlob, Refused
from xmcloud.worker.container_plan import ContainerPlan
from xmcloud.worker.containers import Containers
from xmcloud.worker.environments import Environments
from xmcloud.worker.git.checkout import Revisions
from xmcloud.worker.identity import bound, job_environment
from xmcloud.worker.setup import PrivateStep, SetupFailed

if sys.version_info >= (3, 12):
    import tarfile
else:  # Python 3.11 has the safe extraction from its fourth release on
    from backports import tarfile

_KEPT = "XMCLOUD_PROCESS_MARK"
_OTHER_PYTHON = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")


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


class Preparation:
    """Makes a plan of a job, in the folder of its attempt."""

    def __init__(
        self,
        blobs: BlobCache,
        environments: Environments,
        containers: Containers,
        revisions: Revisions,
        base: Mapping[str, str],
    ) -> None:
        self._blobs = blobs
        self._environments = environments
        self._containers = containers
        self._revisions = revisions
        self.base = {"PYTHONUNBUFFERED": "1", **base}

    async def plan(
        self, job: Job, folder: AttemptFolder, step: PrivateStep
    ) -> Plan | ContainerPlan:
        """Raises `SetupFailed`, `DiskFull` and OSError."""
        if isinstance(job.spec.executable, Image):
            return await self._containers.plan(job, job.spec.executable, folder)
        job = bound(job)
        executable, arguments = job.spec.executable, job.spec.arguments
        own = {**job.spec.environment, **job_environment(job, folder.places)}
        if isinstance(executable, Command):
            where = _directory(executable, folder.path)
            argv = command_line(executable.command, arguments)
            return Plan(argv, where, {**self.base, **own})
        if isinstance(executable, Binary):
            program = await self._program(executable, folder.path)
            return _of_program(
                executable, program, arguments, _work(folder.path), {**self.base, **own}
            )
        if isinstance(executable, GitSource):
            await self._check_out(executable, folder.path, step)
        else:
            assert isinstance(executable, PythonSource)
            archive = await self._blob(executable.archive, "the source archive")
            await asyncio.to_thread(_extract, archive, _work(folder.path), "source archive")
        return await self._python(executable, arguments, _work(folder.path), own, step)

    async def _check_out(self, source: GitSource, folder: Path, step: PrivateStep) -> None:
        changes, commits = "the uncommitted changes", "the commits that were not pushed"
        diff = await self._blob(source.diff, changes) if source.diff else None
        bundle = await self._blob(source.bundle, commits) if source.bundle else None
        await self._revisions.check_out(source, folder / "work", step, diff=diff, bundle=bundle)

    async def _python(
        self,
        source: PythonSource | GitSource,
        arguments: Sequence[Argument],
        work: Path,
        own: Mapping[str, str],
        step: PrivateStep,
    ) -> Plan:
        where = _inside(work, source)

        async def install(name: str, argv: Sequence[str]) -> None:
            await step(name, argv, self._revisions.installer(source.requirements))

        venv = await self._environments.folder(source.requirements, install)
        inherited = {k: v for k, v in self.base.items() if k not in _OTHER_PYTHON}
        path = f"{venv / 'bin'}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        environment = {**inherited, "PATH": path, "VIRTUAL_ENV": str(venv), **own}
        return Plan(command_line(source.entrypoint, arguments), where, environment)

    async def _program(self, binary: Binary, folder: Path) -> Path:
        file = await self._blob(binary.file, "the binary")
        if not binary.archive:
            return file
        work = _work(folder)
        await asyncio.to_thread(_extract, file, work, "binary's archive")
        program = work / binary.name
        if not program.resolve().is_relative_to(work.resolve()) or not program.is_file():
            raise SetupFailed(
                f"The binary's archive has no file {binary.name!r} to run."
                " Name the program by its path in the archive."
            )
        return program

    async def _blob(self, digest: str, what: str) -> Path:
        try:
            return await self._blobs.file(digest)
        except (Refused, DamagedBlob) as error:
            raise SetupFailed(f"Cannot fetch {what}: {error} Launch the job again.") from error


def _work(folder: Path) -> Path:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return work


def _inside(work: Path, source: PythonSource | GitSource) -> Path:
    where = (work / source.directory).resolve()
    if not where.is_relative_to(work.resolve()) or not where.is_dir():
        what = "repository" if isinstance(source, GitSource) else "source archive"
        raise SetupFailed(
            f"The {what} has no folder {source.directory!r} to run in."
            f" Name a folder of the {what.removeprefix('source ')} as its directory."
        )
    return where


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


def _of_program(
    binary: Binary,
    program: Path,
    arguments: Sequence[Argument],
    work: Path,
    environment: Mapping[str, str],
) -> Plan:
    if any(argument.shell for argument in arguments):
        # A shell cannot start a file under another name.
        return Plan(command_line([str(program)], arguments), work, environment)
    argv = command_line([binary.name], arguments)
    return Plan(argv, work, environment, executable=program)


def _extract(archive: Path, target: Path, what: str) -> None:
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise SetupFailed(f"Cannot unpack the {what}: {error}.") from error
