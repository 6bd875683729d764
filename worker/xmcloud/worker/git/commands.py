"""Git commands as steps of a job's setup."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from xmcloud.core.names import random_id
from xmcloud.worker.git import surroundings
from xmcloud.worker.setup import Access, PrivateStep, SetupFailed, StepFailed

_QUIET = ["/bin/sh", "-c", 'exec "$@" >/dev/null 2>&1', "sh"]
_KEEP = ["/bin/sh", "-c", 'exec "$@" >"$0"']


class Git:
    """Runs git for one attempt, in its folder `scratch`."""

    def __init__(self, base: Mapping[str, str], scratch: Path, step: PrivateStep) -> None:
        self._base = base
        self._scratch = scratch
        self._step = step
        self._local = surroundings.local(base)
        self.large_files = shutil.which("git-lfs", path=base.get("PATH")) is not None
        if shutil.which("git", path=base.get("PATH")) is None:
            raise SetupFailed("Cannot fetch the repository: git is missing here. Install it.")

    async def run(
        self, name: str, repository: Path, *arguments: str, access: Access | None = None
    ) -> None:
        """A step that is seen. Raises `StepFailed`."""
        await self._step(name, _git(repository, arguments), access or self._local)

    async def succeeds(self, repository: Path, *arguments: str) -> bool:
        try:
            await self._step("ask git", [*_QUIET, *_git(repository, arguments)], self._local)
        except StepFailed:
            return False
        return True

    async def answer(self, name: str, repository: Path, *arguments: str) -> list[str]:
        """The parts of what it prints, which end with NUL. Raises `StepFailed`."""
        file = self._scratch / f"answer-{random_id()}"
        try:
            await self._step(name, [*_KEEP, str(file), *_git(repository, arguments)], self._local)
            text = file.read_bytes().decode(errors="surrogateescape")
        finally:
            file.unlink(missing_ok=True)
        return text.split("\0")[:-1]


def _git(repository: Path, arguments: tuple[str, ...]) -> list[str]:
    return ["git", "-C", str(repository), *arguments]
