"""Repositories that jobs share: fetched once, one fetch at a time."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from xmcloud.core.repositories import Repository
from xmcloud.worker.cache import locked
from xmcloud.worker.git import surroundings
from xmcloud.worker.git.commands import Git
from xmcloud.worker.git.hosts import Hosts
from xmcloud.worker.git.problems import cannot_fetch, unknown_commit
from xmcloud.worker.setup import Access, SetupFailed, StepFailed

_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


class CachedRepositories:
    """Bare repositories below the worker's cache folder, which only grow."""

    def __init__(self, cache: Path, hosts: Hosts, base: Mapping[str, str]) -> None:
        self._folder = cache / "git"
        self._hosts = hosts
        self._base = base

    async def clone(
        self, git: Git, repository: Repository, commit: str, bundle: Path | None, target: Path
    ) -> None:
        """A clone of its own in `target`, with the commit but nothing checked out.

        Without a network when the commit was fetched before. Raises `SetupFailed`.
        """
        folder = self._folder / _name(repository)
        self._folder.mkdir(parents=True, exist_ok=True)
        async with locked(folder.with_suffix(".lock")):
            with _undisturbed(folder):
                if not (folder / "ready").exists():
                    await git.run("create the cache", self._folder, *_init(folder))
                    (folder / "ready").touch()
                if not await _has(git, folder, commit):
                    await self._fetch(git, folder, repository, commit, bundle)
                await git.run("keep the commit", folder, "update-ref", _kept(commit), commit)
            # Hard links, not borrowed objects: what others do in the cache cannot hurt a job.
            only = ("-c", f"remote.origin.fetch=+{_kept(commit)}:{_kept(commit)}")
            clone = ("clone", "--quiet", "--no-checkout", "--template=", str(folder), str(target))
            await git.run("copy the repository", self._folder, *only, *clone)
        await git.run("name its origin", target, "remote", "set-url", "origin", repository.url)

    def access(self, repository: Repository) -> Access:
        """For fetching from the repository's host. Raises `SetupFailed`."""
        protocols = "http:https:ssh" if repository.host else "file"
        lent = self._hosts.lent_for(repository)
        return surroundings.network(self._base, lent, protocols)

    async def _fetch(
        self, git: Git, folder: Path, repository: Repository, commit: str, bundle: Path | None
    ) -> None:
        if bundle is None:
            await self._fetch_commit(git, folder, repository, commit)
        else:
            for base in _prerequisites(bundle):
                if not await _has(git, folder, base):
                    await self._fetch_commit(git, folder, repository, base)
            await git.answer("unpack the commits", folder, "bundle", "unbundle", str(bundle))
        if not await _has(git, folder, commit):
            raise unknown_commit(repository, commit)

    async def _fetch_commit(
        self, git: Git, folder: Path, repository: Repository, commit: str
    ) -> None:
        """The commit alone where the server gives it away, else all branches and tags."""
        access, address = self.access(repository), self._hosts.address(repository)
        fetch = ("fetch", "--quiet", "--no-write-fetch-head", "--end-of-options", address)
        only = f"+{commit}:{_kept(commit)}"
        try:
            await git.run("fetch the commit", folder, *fetch, only, access=access)
        except StepFailed as error:
            if problem := cannot_fetch(repository, error):
                raise problem from error
        else:
            return
        try:
            await git.run("fetch the repository", folder, *fetch, *_EVERYTHING, access=access)
        except StepFailed as error:
            raise cannot_fetch(repository, error) or error from error
        if not await _has(git, folder, commit):
            raise unknown_commit(repository, commit)


@contextmanager
def _undisturbed(folder: Path) -> Iterator[None]:
    """Removes what commands left behind that were killed here before, under the same lock."""
    begun = folder.with_suffix(".begun")
    if begun.exists():
        for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*"):
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
    begun.touch()
    yield
    begun.unlink()


def _kept(commit: str) -> str:
    return f"refs/xmcloud/{commit}"


async def _has(git: Git, folder: Path, commit: str) -> bool:
    return await git.succeeds(folder, "cat-file", "-e", f"{commit}^{{commit}}")


def _init(folder: Path) -> tuple[str, ...]:
    return "init", "--quiet", "--bare", "--template=", "--object-format=sha1", str(folder)


def _name(repository: Repository) -> str:
    """For people, and different for different repositories."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", repository.key).strip("-")[-60:]
    return f"{readable}-{hashlib.sha256(repository.key.encode()).hexdigest()[:16]}.git"


def _prerequisites(bundle: Path) -> Iterator[str]:
    """The commits that the bundle builds upon."""
    with bundle.open("rb") as file:
        if not file.readline().startswith((b"# v2 git bundle", b"# v3 git bundle")):
            raise SetupFailed(
                "Cannot unpack the commits that were not pushed: they are no git bundle."
                " Capture the experiment again."
            )
        for line in iter(file.readline, b"\n"):
            if not line:
                return
            if line.startswith(b"-"):
                yield line[1:41].decode("ascii", errors="replace")
