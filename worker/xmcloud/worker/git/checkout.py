"""A revision in the folder of an attempt, submodules, large files and changes included."""

import os
from collections.abc import Mapping
from pathlib import Path

from xmcloud.core.repositories import Repository
from xmcloud.core.specs import GitSource
from xmcloud.worker.git import surroundings
from xmcloud.worker.git.cached import CachedRepositories
from xmcloud.worker.git.commands import Git
from xmcloud.worker.git.hosts import Hosts
from xmcloud.worker.git.large_files import fetch_large_files
from xmcloud.worker.git.problems import does_not_apply
from xmcloud.worker.git.submodules import Submodule, submodules
from xmcloud.worker.setup import Access, PrivateStep, SetupFailed, StepFailed

_APPLY = ("apply", "--index", "--binary", "--whitespace=nowarn", "-p1")


class Revisions:
    """Checks revisions out, each into a folder of its own."""

    def __init__(self, cache: Path, hosts: Hosts, base: Mapping[str, str]) -> None:
        self._repositories = CachedRepositories(cache, hosts, base)
        self._hosts = hosts
        self._base = base

    def installer(self, requirements: str) -> Access | None:
        """For a program that installs requirements of git repositories, if there are any.

        Raises `SetupFailed`.
        """
        if "git+" not in requirements:
            return None
        lent = self._hosts.lent_for_requirements(requirements)
        return surroundings.installer(self._base, lent)

    async def check_out(
        self,
        source: GitSource,
        work: Path,
        step: PrivateStep,
        *,
        diff: Path | None = None,
        bundle: Path | None = None,
    ) -> None:
        """The revision in `work`, which does not exist yet. Raises `SetupFailed`, `DiskFull`."""
        git = Git(self._base, work.parent, step)
        repository = Repository.parse(source.repository)
        await self._files(git, repository, source.commit, work, bundle)
        if diff is not None and os.stat(diff).st_size:
            try:
                await git.run("apply the uncommitted changes", work, *_APPLY, str(diff))
            except StepFailed as error:
                raise does_not_apply(source.commit, error) from error
        await self._complete(git, repository, work)

    async def _files(
        self, git: Git, repository: Repository, commit: str, work: Path, bundle: Path | None = None
    ) -> None:
        await self._repositories.clone(git, repository, commit, bundle, work)
        await git.run("check out the commit", work, "checkout", "--quiet", "--detach", commit)

    async def _complete(self, git: Git, repository: Repository, work: Path) -> None:
        """What the files of a revision only point to."""
        await fetch_large_files(git, work, lambda: self._repositories.access(repository))
        for submodule in await submodules(git, work):
            place = _place(work, submodule)
            inner = _repository(repository, submodule)
            await self._files(git, inner, submodule.commit, place)
            await self._complete(git, inner, place)


def _place(work: Path, submodule: Submodule) -> Path:
    """Its folder, empty, and not behind a link that leads elsewhere."""
    place = work / submodule.path
    if place.resolve() != work.resolve() / submodule.path:
        raise SetupFailed(f"The submodule {submodule.path!r} lies behind a link: move it.")
    place.mkdir(parents=True, exist_ok=True)
    if os.listdir(place):
        raise SetupFailed(
            f"The folder of the submodule {submodule.path!r} is not empty:"
            " commit its files in the submodule's own repository."
        )
    return place


def _repository(outer: Repository, submodule: Submodule) -> Repository:
    try:
        inner = Repository.parse(outer.relative(submodule.url))
    except ValueError as error:
        raise SetupFailed(
            f"Cannot fetch the submodule {submodule.path!r}: {error}. Correct .gitmodules."
        ) from None
    if inner.host == "" and outer.host:
        raise SetupFailed(
            f"Cannot fetch the submodule {submodule.path!r}: it is a file of the worker's machine,"
            " while the repository is not. Correct its url in .gitmodules."
        )
    return inner
