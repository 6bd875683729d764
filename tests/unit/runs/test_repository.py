"""Where the code is from, and what others cannot fetch yet."""

import subprocess
from pathlib import Path

import pytest

from tests.unit.runs.gits import Person, write
from xmcloud.runs.capture.repository import find, submodules, unpushed, without_credentials

FILES = {"train.py": b"pass\n"}


@pytest.mark.parametrize(
    ("written", "public"),
    [
        ("https://ann:secret@example.com/team/repo.git", "https://example.com/team/repo.git"),
        ("https://ghp_token@example.com/repo", "https://example.com/repo"),
        ("https://example.com:8443/repo?private_token=x", "https://example.com:8443/repo"),
        ("ssh://git:secret@example.com:22/repo", "ssh://git@example.com:22/repo"),
        ("git@example.com:team/repo.git", "git@example.com:team/repo.git"),
        ("example.com:team/repo.git", "example.com:team/repo.git"),
        ("/srv/git/repo.git", "file:///srv/git/repo.git"),
        ("../other.git", "file:///home/other.git"),
        ("file:///srv/repo", "file:///srv/repo"),
        ("", ""),
    ],
)
def test_no_address_has_credentials(written: str, public: str) -> None:
    assert without_credentials(written, Path("/home/work")) == public


def test_a_checkout_is_found_from_any_folder_of_it(ann: Person, tmp_path: Path) -> None:
    repository = ann.repository(tmp_path / "work", FILES | {"a/b/c.py": b""})
    ann(repository, "checkout", "-q", "-b", "topic")
    found = find(repository / "a/b")
    assert found is not None
    assert (found.root, found.url) == (repository, f"file://{tmp_path}/work.git")
    assert found.commit == ann(repository, "rev-parse", "HEAD").strip()
    assert found.branch == "topic"
    ann(repository, "checkout", "-q", "--detach")
    detached = find(repository)
    assert detached is not None
    assert detached.branch == ""


def test_the_remote_of_the_branch_comes_before_origin(ann: Person, tmp_path: Path) -> None:
    repository = ann.repository(tmp_path / "work", FILES)
    ann(repository, "remote", "add", "team", "https://example.com/team.git")
    branch = ann(repository, "branch", "--show-current").strip()
    ann(repository, "config", f"branch.{branch}.remote", "team")
    found = find(repository)
    assert found is not None
    assert (found.remote, found.url) == ("team", "https://example.com/team.git")


def test_without_git_or_a_commit_there_is_none(ann: Person, tmp_path: Path) -> None:
    assert find(tmp_path) is None
    ann(tmp_path, "init", "-q")
    assert find(tmp_path) is None


def test_an_address_that_no_worker_understands_counts_as_none(ann: Person, tmp_path: Path) -> None:
    repository = ann.repository(tmp_path / "work", FILES)
    ann(repository, "remote", "set-url", "origin", "ext::sh -c whatever")
    found = find(repository)
    assert found is not None
    assert found.url == ""


def test_commits_that_were_not_pushed_travel_in_a_bundle(ann: Person, tmp_path: Path) -> None:
    repository = ann.repository(tmp_path / "work", FILES)
    pushed = find(repository)
    assert pushed is not None
    assert unpushed(pushed) == b""
    write(repository, {"more.py": b"1\n"})
    ann.commit(repository)
    checkout = find(repository)
    assert checkout is not None
    bundle = tmp_path / "bundle"
    bundle.write_bytes(unpushed(checkout))
    clone = tmp_path / "clone"
    ann(tmp_path, "clone", "-q", str(tmp_path / "work.git"), str(clone))
    ann(clone, "fetch", "-q", str(bundle), "HEAD")
    ann(clone, "checkout", "-q", checkout.commit)
    assert (clone / "more.py").read_bytes() == b"1\n"


def test_submodules_that_differ_are_named(ann: Person, tmp_path: Path) -> None:
    library = ann.repository(tmp_path / "library", {"lib.py": b"pass\n"})
    repository = ann.repository(tmp_path / "work", FILES)
    for name in ("clean", "dirty", "moved on"):
        ann(repository, "submodule", "add", "-q", f"file://{library}.git", name)
    ann.commit(repository)
    checkout = find(repository)
    assert checkout is not None
    assert submodules(checkout) == []
    write(repository / "dirty", {"lib.py": b"changed\n", "new.py": b""})
    write(repository / "moved on", {"lib.py": b"later\n"})
    ann.commit(repository / "moved on")
    assert submodules(checkout) == [
        "dirty (changed files, untracked files)",
        "moved on (another commit)",
    ]


def test_a_shallow_clone_is_captured(ann: Person, tmp_path: Path) -> None:
    ann.repository(tmp_path / "work", FILES)
    shallow = tmp_path / "shallow"
    source = f"file://{tmp_path}/work.git"
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", source, str(shallow)], env=ann.environment, check=True
    )
    found = find(shallow)
    assert found is not None
    assert unpushed(found) == b""
