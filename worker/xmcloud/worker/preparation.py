"""From the definition of a job to what can be started."""

import asyncio
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from xmcloud.core.arguments import command_line
from xmcloud.core.models import Execution, Job
from xmcloud.core.specs import Argument, Binary, Command, GitSource, Image, PythonSource
from xmcloud.core.trace import VARIABLE
from xmcloud.worker.attempt_folder import AttemptFolder
from xmcloud.worker.cache import BlobCache
from xmcloud.worker.client import DamagedBlob, Refused
from xmcloud.worker.container_plan import ContainerPlan
from xmcloud.worker.containers import Containers
from xmcloud.worker.environments import Environments, Listed, find, repositories
from xmcloud.worker.eviction import Lease
from xmcloud.worker.git.checkout import Revisions
from xmcloud.worker.identity import bound, job_environment
from xmcloud.worker.setup import PrivateStep, SetupFailed
from xmcloud.worker.slots import Allotment

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
    environment: Mapping[str, str] = field(repr=False)
    execution: Execution
    executable: Path | None = None
    lease: Lease | None = None
    """Of the environment, for as long as it runs."""

    def given(self, variables: Mapping[str, str]) -> Self:
        """With more variables for the process."""
        return replace(self, environment={**self.environment, **variables})


def base_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The worker's own without its settings and secrets, and those of its telemetry."""
    return {
        name: value
        for name, value in inherited.items()
        if name == _KEPT or not (name.startswith(("XMCLOUD_", "OTEL_")) or name == VARIABLE)
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
        self, job: Job, folder: AttemptFolder, allotment: Allotment, step: PrivateStep
    ) -> Plan | ContainerPlan:
        """Raises `SetupFailed`, `DiskFull` and OSError."""
        if isinstance(job.spec.executable, Image):
            gpus = [gpu.uuid for gpu in allotment.gpus]
            return await self._containers.plan(job, job.spec.executable, folder, gpus)
        job = bound(job)
        executable, arguments = job.spec.executable, job.spec.arguments
        own = {
            **allotment.defaults(),
            **job.spec.environment,
            **job_environment(job, folder.places),
            **allotment.environment(),
        }
        if isinstance(executable, Command):
            argv = command_line(executable.command, arguments)
            return _plan(argv, _directory(executable, folder.path), {**self.base, **own}, "")
        if isinstance(executable, Binary):
            program = await self._program(executable, folder.path)
            work = _work(folder.path)
            return _of_program(executable, program, arguments, work, {**self.base, **own})
        assert not isinstance(executable, Image)
        code = await self._fetch(executable, folder.path, step)
        return await self._python(executable, code, arguments, folder, own, step)

    async def _fetch(
        self, source: PythonSource | GitSource, folder: Path, step: PrivateStep
    ) -> str:
        """The code, in the folder of the work; what it is called."""
        if isinstance(source, PythonSource):
            archive = await self._blob(source.archive, "the source archive")
            await asyncio.to_thread(_extract, archive, _work(folder), "source archive")
            return f"sha256:{source.archive}"
        changes, commits = "the uncommitted changes", "the commits that were not pushed"
        diff = await self._blob(source.diff, changes) if source.diff else None
        bundle = await self._blob(source.bundle, commits) if source.bundle else None
        await self._revisions.check_out(source, folder / "work", step, diff=diff, bundle=bundle)
        return f"git:{source.commit}" + (f"+{source.diff}" if source.diff else "")

    async def _python(
        self,
        source: PythonSource | GitSource,
        code: str,
        arguments: Sequence[Argument],
        folder: AttemptFolder,
        own: Mapping[str, str],
        step: PrivateStep,
    ) -> Plan:
        work = _work(folder.path)
        where = _inside(work, source)
        given = source.requirements
        wanted = Listed(given) if given else await asyncio.to_thread(find, where, work)

        async def install(name: str, argv: Sequence[str]) -> None:
            await step(name, argv, self._revisions.installer(repositories(wanted)))

        made = await self._environments.environment(wanted, install, source.python)
        folder.packages.write_bytes(made.freeze)
        inherited = {k: v for k, v in self.base.items() if k not in _OTHER_PYTHON}
        path = f"{made.path / 'bin'}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        modules = [*map(str, made.code), *filter(None, [own.get("PYTHONPATH")])]
        environment = {**inherited, "PATH": path, "VIRTUAL_ENV": str(made.path), **own}
        if modules:
            environment["PYTHONPATH"] = os.pathsep.join(modules)
        plan = _plan(command_line(source.entrypoint, arguments), where, environment, code)
        execution = plan.execution.evolve(
            directory=source.directory,
            python=made.python,
            packages=hashlib.sha256(made.freeze).hexdigest(),
        )
        return replace(plan, execution=execution, lease=made.lease)

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


def _plan(
    argv: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    code: str,
    executable: Path | None = None,
) -> Plan:
    execution = Execution(argv=Execution.command(argv), directory=str(directory), code=code)
    return Plan(argv, directory, environment, execution, executable)


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
    code = f"sha256:{binary.file}"
    if any(argument.shell for argument in arguments):
        # A shell cannot start a file under another name.
        return _plan(command_line([str(program)], arguments), work, environment, code)
    argv = command_line([binary.name], arguments)
    return _plan(argv, work, environment, code, program)


def _extract(archive: Path, target: Path, what: str) -> None:
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise SetupFailed(f"Cannot unpack the {what}: {error}.") from error
