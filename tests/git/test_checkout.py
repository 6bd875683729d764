"""A revision on disk, exactly as it was on the author's machine."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.git.authors import commit, facts, git, head, new_repository, uncommitted, write
from tests.git.conftest import Machine
from xmcloud.worker.setup import SetupFailed

pytestmark = pytest.mark.anyio


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    new_repository(folder, {"train.py": "one\n", "data/a.bin": bytes(range(256))})
    return folder


async def test_the_exact_commit_is_there_not_the_newest(machine: Machine, origin: Path) -> None:
    first = head(origin)
    commit(origin, {"train.py": "two\n"})
    work = await machine.check_out(origin, first)
    assert (work / "train.py").read_text() == "one\n"
    assert head(work) == first
    assert git(work, "status", "--porcelain") == b""
    assert machine.log == ""
    assert git(work, "remote", "get-url", "origin").decode().strip() == f"file://{origin}"


async def test_a_second_start_needs_no_network(machine: Machine, origin: Path) -> None:
    first = head(origin)
    git(origin, "tag", "v1")
    second = commit(origin, {"train.py": "two\n"})
    await machine.check_out(origin, second)
    shutil.rmtree(origin)
    work = await machine.check_out(origin, first)
    assert (work / "train.py").read_text() == "one\n"
    assert git(work, "describe", "--tags") == b"v1\n"


async def test_what_a_job_does_to_its_copy_stays_there(machine: Machine, origin: Path) -> None:
    first = head(origin)
    work = await machine.check_out(origin, first)
    git(work, "gc", "--quiet", "--prune=now")
    shutil.rmtree(work / ".git")
    other = await machine.check_out(origin, first)
    git(other, "fsck", "--full")
    assert (other / "train.py").read_text() == "one\n"


async def test_attempts_may_be_on_another_disk(
    machine: Machine, origin: Path, small_disk: Path
) -> None:
    machine.attempts = small_disk
    work = await machine.check_out(origin, head(origin))
    assert facts(work) == facts(origin)


async def test_what_a_killed_worker_left_in_the_cache_is_no_hindrance(
    machine: Machine, origin: Path
) -> None:
    first = head(origin)
    await machine.check_out(origin, first)
    [cached] = (machine.folder / "cache" / "git").glob("*.git")
    second = commit(origin, {"train.py": "two\n"})
    lock = cached / "refs" / "xmcloud" / f"{second}.lock"

    class Killed(BaseException):
        pass

    def kill(name: str) -> None:
        if name == "fetch the commit":
            lock.touch()
            raise Killed

    machine.before_step = kill
    with pytest.raises(Killed):
        await machine.check_out(origin, second)
    assert lock.exists()
    machine.before_step = lambda name: None
    work = await machine.check_out(origin, second)
    assert (work / "train.py").read_text() == "two\n"


async def test_changes_come_back_byte_for_byte(
    machine: Machine, origin: Path, tmp_path: Path
) -> None:
    first = commit(
        origin,
        {
            "mode.sh": "#!/bin/sh\n",
            "gone.txt": "x\n",
            "old name.txt": "".join(f"{n}\n" for n in range(50)),
            "crlf.txt": b"a\r\nb\r\n",
            "open.txt": b"no end",
        },
    )
    mine = tmp_path / "mine"
    git(tmp_path, "clone", "--quiet", str(origin), str(mine))
    (mine / "mode.sh").chmod(0o755)
    (mine / "gone.txt").unlink()
    (mine / "old name.txt").rename(mine / 'neu-ü \t"quoted".txt')
    (mine / "link").symlink_to("train.py")
    write(
        mine,
        {
            "data/a.bin": bytes(reversed(range(256))) * 10,
            "data/new.bin": os.urandom(2000),
            "crlf.txt": b"a\r\nchanged\r\n\r\n",
            "open.txt": b"still no end",
            "trailing.txt": b"spaces   \n\t \n",
            "empty": b"",
            "latin.txt": b"caf\xe9\n",
        },
    )
    work = await machine.check_out(origin, first, diff=uncommitted(mine))
    assert facts(work) == facts(mine)
    assert stat.S_IMODE((work / "mode.sh").stat().st_mode) & 0o111


async def test_the_settings_of_the_machine_do_not_matter(
    machine: Machine, origin: Path, home: Path
) -> None:
    first = commit(origin, {"unchanged.py": "lf\n"})
    write(origin, {"train.py": b"two\r\nthree  \n"})
    diff = uncommitted(origin)
    hostile = f"""
        [core]
            autocrlf = true
            eol = crlf
            quotepath = false
            hooksPath = {home}
            fsmonitor = {home}/post-checkout
        [diff]
            noprefix = true
            mnemonicPrefix = true
        [apply]
            whitespace = fix
            ignoreWhitespace = change
        [filter "spoil"]
            smudge = tr a-z A-Z
        [checkout]
            defaultRemote = other
        [clone]
            defaultRemoteName = other
        [init]
            defaultObjectFormat = sha256
            templateDir = {home}
        [transfer]
            bundleURI = true
        [url "https://nowhere.invalid/"]
            pushInsteadOf = file:///
    """
    write(home, {".gitconfig": hostile, ".config/git/attributes": "*.py text eol=crlf\n"})
    for hook in ("post-checkout", "reference-transaction"):
        write(home, {hook: f"#!/bin/sh\ntouch {home}/ran\n"})
        (home / hook).chmod(0o755)
    machine.base |= {"GIT_DIR": "/nowhere", "GIT_TRACE": str(home / "ran"), "GIT_INDEX_FILE": "x"}
    work = await machine.check_out(origin, first, diff=diff)
    assert facts(work) == facts(origin)
    assert not (home / "ran").exists()


async def test_changes_that_do_not_fit_name_the_file(machine: Machine, origin: Path) -> None:
    write(origin, {"train.py": "changed\n"})
    diff = uncommitted(origin)
    other = commit(origin, {"train.py": "other\n"})
    with pytest.raises(SetupFailed, match=r"to commit \w+: train\.py is different there"):
        await machine.check_out(origin, other, diff=diff)


@pytest.mark.parametrize("diff", [b"no patch\n", b"diff --git a/x b/x\n@@ -1 +1 @@\n"])
async def test_what_is_no_patch_is_told(machine: Machine, origin: Path, diff: bytes) -> None:
    with pytest.raises(SetupFailed, match=r"no patch for it\. Capture the experiment again"):
        await machine.check_out(origin, head(origin), diff=diff)


async def test_no_changes_are_fine(machine: Machine, origin: Path) -> None:
    work = await machine.check_out(origin, head(origin), diff=b"")
    assert facts(work) == facts(origin)


async def test_changes_cannot_reach_outside(machine: Machine, origin: Path) -> None:
    patch = b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n"
    patch += b"@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(SetupFailed, match="Capture the experiment again"):
        await machine.check_out(origin, head(origin), diff=patch)


async def test_commits_that_were_not_pushed_come_from_the_bundle(
    machine: Machine, origin: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    git(tmp_path, "clone", "--quiet", str(origin), str(mine))
    newest = commit(mine, {"train.py": "mine\n"})
    bundle = tmp_path / "bundle"
    git(mine, "bundle", "create", "--quiet", str(bundle), "HEAD", "--not", "--remotes")
    with pytest.raises(SetupFailed, match=r"has no such commit\. Push it, or capture"):
        await machine.check_out(origin, newest)
    work = await machine.check_out(origin, newest, bundle=bundle)
    assert (work / "train.py").read_text() == "mine\n"
    shutil.rmtree(origin)
    again = await machine.check_out(origin, newest)
    assert facts(again) == facts(work)
    [cached] = (machine.folder / "cache" / "git").glob("*.git")
    # In packs, which are there as a whole or not at all.
    assert git(cached, "count-objects").startswith(b"0 objects")


async def test_a_bundle_that_is_none_is_told(
    machine: Machine, origin: Path, tmp_path: Path
) -> None:
    write(tmp_path, {"bundle": "x"})
    with pytest.raises(SetupFailed, match="no git bundle"):
        await machine.check_out(origin, "0" * 40, bundle=tmp_path / "bundle")


async def test_an_unknown_commit_says_what_to_do(machine: Machine, origin: Path) -> None:
    with pytest.raises(SetupFailed, match="Push it, or capture the experiment again"):
        await machine.check_out(origin, "1" * 40)


async def test_a_repository_that_is_not_there_is_named(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match="no such repository"):
        await machine.check_out(tmp_path / "nothing", "1" * 40)


async def test_a_machine_without_git_says_so(machine: Machine, origin: Path) -> None:
    machine.base["PATH"] = "/nowhere"
    with pytest.raises(SetupFailed, match="git is missing"):
        await machine.check_out(origin, head(origin))
