"""The code of a job on this machine, as a worker would have it."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import assert_never

from xmcloud.core.errors import InvalidInput, XmcloudError
from xmcloud.core.models import Job
from xmcloud.core.specs import GitSource, PythonSource
from xmcloud.worker.environments import Found, Listed, find
from xmcloud.worker.environments.making import exported
from xmcloud.worker.environments.wanted import Hashed, PoetryLock, PyLock, UvLock
from xmcloud.worker.git.checkout import Revisions
from xmcloud.worker.git.hosts import Hosts
from xmcloud.worker.setup import Access, SetupFailed, StepFailed
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.packaging.job_image import JobCode, Requirements

if sys.version_info >= (3, 12):
    import tarfile
else:  # Python 3.11 has the safe extraction from its fourth release on
    from backports import tarfile

_LAST_BYTES = 3000


class CodeUnavailable(XmcloudError):
    """The code of a job cannot be had here."""

    slug, title, status = "code-unavailable", "The code of the job cannot be had here", 422


@contextmanager
def code_of(client: Client, job: Job) -> Iterator[JobCode]:
    """While it is needed. Raises `InvalidInput` for other jobs, and `CodeUnavailable`."""
    source = job.spec.executable
    if not isinstance(source, PythonSource | GitSource):
        raise InvalidInput(
            "job", job.id, "a job of Python code or of a git revision; others have no code to pack"
        )
    cache = Path(os.environ.get("XMCLOUD_CACHE") or "~/.cache/xmcloud").expanduser().absolute()
    with tempfile.TemporaryDirectory(prefix="xmcloud-") as scratch:
        try:
            code = asyncio.run(_fetched(client, job, source, Path(scratch), cache))
        except (SetupFailed, tarfile.TarError) as error:
            raise CodeUnavailable(str(error), "Correct it, or launch the job again.") from error
        yield code


async def _fetched(
    client: Client, job: Job, source: PythonSource | GitSource, place: Path, cache: Path
) -> JobCode:
    work = place / "work"

    def blob(digest: str | None, name: str) -> Path | None:
        if digest is None:
            return None
        (place / name).write_bytes(client.get_blob(digest))
        return place / name

    if isinstance(source, GitSource):
        diff, bundle = blob(source.diff, "diff"), blob(source.bundle, "bundle")
        revisions = Revisions(cache, Hosts({}, os.environ), dict(os.environ))
        await revisions.check_out(source, work, _Step(place), diff=diff, bundle=bundle)
    else:
        archive = blob(source.archive, "archive")
        assert archive is not None
        with tarfile.open(archive) as tar:
            tar.extractall(work, filter="data")
    where = work / source.directory
    if not where.is_dir():
        raise SetupFailed(f"Its code has no folder {source.directory!r} to run in.")
    found = Listed(source.requirements) if source.requirements.strip() else find(where, work)
    requirements = await _requirements(found, place)
    imported = [PurePosixPath(path.resolve().relative_to(work.resolve())) for path in found.code]
    return JobCode(
        work,
        source.directory,
        source.entrypoint,
        job.spec.arguments,
        job.spec.environment,
        requirements,
        imported,
    )


async def _requirements(found: Found, place: Path) -> Requirements:
    match found:
        case Listed():
            more = {"constraints.txt": found.constraints} if found.constraints else {}
            return Requirements({"requirements.txt": found.text, **more})
        case Hashed():
            return Requirements({"requirements.txt": found.text}, ["--require-hashes"])
        case PoetryLock():
            return Requirements({"requirements.txt": found.text}, ["--no-deps"])
        case UvLock() | PyLock():
            lock = found
            if isinstance(lock, UvLock):
                lock = await exported(lock, place / "lock", _Step(place))
            options = ["--preview-features", "pylock"]
            return Requirements({"pylock.toml": lock.text}, options, "uv")
        case _:
            assert_never(found)


class _Step:
    """Runs steps of a setup whose output counts when they fail."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def __call__(
        self, name: str, argv: Sequence[str], access: Access | None = None, /
    ) -> None:
        """Raises `StepFailed`."""
        access = access or Access(dict(os.environ))
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self._directory,
            env=access.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        if process.returncode:
            said = _hidden(output[-_LAST_BYTES:].decode(errors="replace"), access.secrets)
            raise StepFailed(name, Path(argv[0]).name, process.returncode, said.strip())


def _hidden(text: str, secrets: Collection[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
