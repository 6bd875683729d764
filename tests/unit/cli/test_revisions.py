"""Real repositories on this machine; the remote is a bare one, by its file:// address."""

from pathlib import Path

import pytest

from tests.unit.runs.gits import Person, write
from xmcloud.cli.revisions import CannotAskRemote, distance, full_commit
from xmcloud.core.errors import InvalidInput


@pytest.fixture
def ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    person = Person(tmp_path)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, person.environment[name])
    return person


class Work:
    """A checkout with two pushed commits, the older one tagged, and where it was pushed to."""

    def __init__(self, ann: Person, folder: Path) -> None:
        self.git, self.folder = ann, ann.repository(folder, {"a": b"1\n"})
        ann(self.folder, "tag", "-a", "-m", "first", "v1")
        self.old = self.head()
        self.change(b"2\n")
        ann(self.folder, "push", "-q", "--follow-tags", "origin", "HEAD:refs/heads/main")
        ann(self.folder, "branch", "-q", "--force", "feature/x", "HEAD")
        ann(self.folder, "push", "-q", "origin", "feature/x")
        ann(folder.with_suffix(".git"), "symbolic-ref", "HEAD", "refs/heads/main")
        self.url = f"file://{folder.with_suffix('.git')}"

    def head(self) -> str:
        return self.git(self.folder, "rev-parse", "HEAD").strip()

    def change(self, content: bytes) -> str:
        write(self.folder, {"a": content})
        self.git.commit(self.folder)
        return self.head()


@pytest.fixture
def work(ann: Person, tmp_path: Path) -> Work:
    return Work(ann, tmp_path / "work")


def test_a_full_id_is_asked_nobody(tmp_path: Path) -> None:
    assert full_commit("a" * 40, "https://127.0.0.1:9/r", tmp_path).commit == "a" * 40


def test_a_name_or_the_beginning_of_an_id_from_the_checkout(work: Work) -> None:
    new, inside = work.head(), work.folder / "sub"
    inside.mkdir()
    for revision, commit in (
        ("HEAD", new),
        ("feature/x", new),
        ("v1", work.old),
        (work.old[:7], work.old),
        ("HEAD~1", work.old),
    ):
        assert full_commit(revision, work.url, inside) == (commit, "this checkout")


def test_a_name_from_the_remote(work: Work, tmp_path: Path) -> None:
    new = work.head()
    for revision, commit in (
        ("main", new),
        ("refs/heads/main", new),
        ("feature/x", new),
        ("v1", work.old),
        ("HEAD", new),
        (new[:8], new),
    ):
        assert full_commit(revision, work.url, tmp_path) == (commit, work.url)


@pytest.mark.parametrize("revision", ["nowhere", "-x", "0000000", "a b", ""])
def test_what_nobody_knows_is_refused(work: Work, tmp_path: Path, revision: str) -> None:
    for folder in (work.folder, tmp_path):
        with pytest.raises(InvalidInput, match="no branch or tag has that name"):
            full_commit(revision, work.url, folder)


def test_a_checkout_of_another_repository_is_not_asked(work: Work, ann: Person) -> None:
    other = ann.repository(work.folder.parent / "other", {"b": b"1\n"})
    assert full_commit("main", work.url, other) == (work.head(), work.url)


def test_a_commit_that_was_not_pushed_is_refused(work: Work) -> None:
    work.change(b"3\n")
    with pytest.raises(InvalidInput, match="was not pushed"):
        full_commit("HEAD", work.url, work.folder)
    # Pushed by another way than this remote's name: the checkout does not know, the remote does.
    work.git(work.folder, "push", "-q", work.url, "HEAD:refs/heads/other")
    assert full_commit("HEAD", work.url, work.folder).commit == work.head()


def test_a_remote_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotAskRemote, match="git cannot read file:///nowhere/r"):
        full_commit("main", "file:///nowhere/r", tmp_path)


def test_how_far_two_commits_are_apart(work: Work, tmp_path: Path) -> None:
    new = work.head()
    assert distance(work.old, new, work.folder) == "1 ahead"
    assert distance(new, work.old, work.folder) == "1 behind"
    assert distance(new, "a" * 40, work.folder) == ""
    assert distance(work.old, new, tmp_path) == ""
    work.git(work.folder, "checkout", "-q", work.old)
    assert distance(new, work.change(b"3\n"), work.folder) == "1 ahead, 1 behind"
