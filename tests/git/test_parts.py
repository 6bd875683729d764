"""What a revision only points to: submodules and large files."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.git.authors import commit, git, head, new_repository, uncommitted, write
from tests.git.conftest import Machine, missing
from tests.git.servers import HttpServer, remember_password
from xmcloud.core.names import random_id
from xmcloud.worker.setup import SetupFailed

pytestmark = pytest.mark.anyio
LARGE = b"large"


def pointer(content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    version = "https://git-lfs.github.com/spec/v1"
    return f"version {version}\noid sha256:{digest}\nsize {len(content)}\n"


FILES = {".gitattributes": "*.bin filter=lfs -text\n", "a.bin": "whole", "b.bin": pointer(LARGE)}


def add_submodule(outer: Path, url: str, path: str) -> None:
    git(outer, "submodule", "--quiet", "add", url, path)


def point_submodule(outer: Path, url: str, inner: str) -> str:
    """A commit whose .gitmodules has the address as it stands, unchecked."""
    git(outer, "update-index", "--add", "--cacheinfo", f"160000,{inner},sub")
    (outer / "sub").mkdir(exist_ok=True)
    (outer / ".gitmodules").write_text(f'[submodule "sub"]\n\tpath = sub\n\turl = {url}\n')
    git(outer, "add", ".gitmodules")
    git(outer, "commit", "--quiet", "--message=sub")
    return head(outer)


async def test_submodules_and_theirs_are_checked_out_at_their_commits(
    machine: Machine, tmp_path: Path
) -> None:
    deep, middle, outer = (tmp_path / name for name in ("deep", "middle", "outer"))
    new_repository(deep, {"deep.txt": "deep\n"})
    new_repository(middle, {"middle.txt": "first\n"})
    add_submodule(middle, "../deep", "lib/deep")
    commit(middle, {})
    new_repository(outer, {"outer.txt": "outer\n"})
    add_submodule(outer, f"file://{middle}", "third party/middle")
    first = commit(outer, {})
    commit(middle, {"middle.txt": "second\n"})
    work = await machine.check_out(outer, first)
    inner = work / "third party" / "middle"
    assert (inner / "middle.txt").read_text() == "first\n"
    assert (inner / "lib" / "deep" / "deep.txt").read_text() == "deep\n"
    assert git(work, "status", "--porcelain") == b""


async def test_a_submodule_that_was_moved_on_without_a_commit(
    machine: Machine, tmp_path: Path
) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    new_repository(inner, {"a": "first\n"})
    new_repository(outer, {"outer.txt": "outer\n"})
    add_submodule(outer, "../inner", "sub")
    first = commit(outer, {})
    commit(inner, {"a": "second\n"})
    git(outer / "sub", "pull", "--quiet", "origin", "main")
    work = await machine.check_out(outer, first, diff=uncommitted(outer))
    assert (work / "sub" / "a").read_text() == "second\n"


@pytest.mark.parametrize("url", ["ext::touch HERE/ran", "--upload-pack=touch HERE/ran", "HERE"])
async def test_a_submodule_can_run_nothing(machine: Machine, tmp_path: Path, url: str) -> None:
    outer = tmp_path / "outer"
    inner = new_repository(outer, {"a": "a\n"})
    first = point_submodule(outer, url.replace("HERE", str(tmp_path)), inner)
    with pytest.raises(SetupFailed, match=r"submodule 'sub'.* Correct .gitmodules"):
        await machine.check_out(outer, first)
    assert not (tmp_path / "ran").exists()


async def test_a_submodule_of_a_server_cannot_be_a_file_of_the_worker(
    machine: Machine, http: HttpServer, served: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    inner = new_repository(secret, {"key": "key\n"})
    outer = served / "borrower"
    new_repository(outer, {"a": "a\n"})
    first = point_submodule(outer, f"file://{secret}", inner)
    with pytest.raises(SetupFailed, match="a file of the worker's machine"):
        await machine.check_out(f"{http.url}/borrower", first)


async def test_hooks_and_filters_of_a_repository_do_not_run(
    machine: Machine, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    hook = f"#!/bin/sh\ntouch {tmp_path}/ran\n"
    first = new_repository(
        origin,
        {
            "hooks/post-checkout": hook,
            ".gitattributes": "*.txt filter=evil diff=evil\n",
            ".gitconfig": f'[filter "evil"]\n\tsmudge = touch {tmp_path}/ran\n',
            "a.txt": "a\n",
        },
    )
    (origin / ".git" / "hooks" / "post-checkout").write_text(hook)
    (origin / ".git" / "hooks" / "post-checkout").chmod(0o755)
    work = await machine.check_out(origin, first)
    assert (work / "a.txt").read_text() == "a\n"
    assert not (tmp_path / "ran").exists()
    assert not (work / ".git" / "hooks").exists()


async def test_without_git_lfs_a_large_file_is_named(machine: Machine, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    first = new_repository(origin, FILES)
    machine.base["PATH"] = without_large_files(tmp_path / "bin")
    with pytest.raises(SetupFailed, match=r"'b\.bin': git-lfs is missing .* Install it"):
        await machine.check_out(origin, first)


async def test_large_files_come_from_the_server(
    machine: Machine, http: HttpServer, served: Path, home: Path, large_files: None
) -> None:
    path = f"private/{random_id()}"
    first = new_repository(served / path, FILES)
    remember_password(home, http)
    with pytest.raises(SetupFailed, match=r"large file 'b\.bin'. Push it"):
        await machine.check_out(f"{http.url}/{path}", first)
    large = served / "large"
    write(large, {hashlib.sha256(LARGE).hexdigest(): LARGE})
    work = await machine.check_out(f"{http.url}/{path}", first)
    write(served / path, {"b.bin": pointer(b"never pushed")})
    changed = uncommitted(served / path)
    with pytest.raises(SetupFailed, match=r"large file 'b\.bin'. Push it"):
        await machine.check_out(f"{http.url}/{path}", first, diff=changed)
    shutil.rmtree(large)
    assert (work / "b.bin").read_bytes() == LARGE
    assert (work / "a.bin").read_text() == "whole"


@pytest.fixture
def large_files() -> None:
    if shutil.which("git-lfs") is None:
        missing("git-lfs: install the package git-lfs")


async def test_large_files_that_are_there_need_nothing(machine: Machine, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    files = {".gitattributes": "*.bin filter=lfs -text\n", "a.bin": "whole"}
    machine.base["PATH"] = without_large_files(tmp_path / "bin")
    work = await machine.check_out(origin, new_repository(origin, files))
    assert (work / "a.bin").read_text() == "whole"


def without_large_files(folder: Path) -> str:
    """A PATH that has all programs but git-lfs."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        if not os.path.isdir(place):
            continue
        for program in os.scandir(place):
            link = folder / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program.path)
    (folder / "git-lfs").unlink(missing_ok=True)
    return str(folder)
