"""The patch of a working tree: the same bytes whoever makes it, and nothing missing."""

import hashlib
import os
from pathlib import Path

import pytest

from tests.unit.runs.gits import Person, applied, tree, write
from xmcloud.runs.capture.git import GitFailed
from xmcloud.runs.capture.tree import additions, changes

LIMIT = 10_000

FILES = {
    "train.py": b"".join(b"line %d\n" % number for number in range(60)),
    "data.bin": bytes(range(256)),
    "gone.txt": b"gone\n",
    "old name.txt": b"".join(b"same %d\n" % number for number in range(20)),
    "run.sh": b"echo hello\n",
    ".gitignore": b"*.log\nout/\n",
    ".gitattributes": b"*.shout diff=shout\n*.py diff=shout\n",
    "words.shout": b"quiet\n",
    "folder/file": b"becomes a file\n",
    "empty": b"",
    "blank.txt": b"a\n\nb\n\nc\n",
}


@pytest.fixture
def repository(ann: Person, tmp_path: Path) -> Path:
    return ann.repository(tmp_path / "work", FILES)


def head(ann: Person, repository: Path) -> str:
    return ann(repository, "rev-parse", "HEAD").strip()


def edit(ann: Person, repository: Path) -> None:
    """Every kind of change, some of them staged."""
    lines = FILES["train.py"].replace(b"line 30\n", b"line thirty \n").replace(b"line 58\n", b"")
    write(
        repository,
        {
            "train.py": lines + b"no newline at the end",
            "data.bin": bytes(reversed(range(256))) + b"\0\xff",
            "words.shout": b"LOUD\n",
            "new/blob.bin": b"\0" + os.urandom(500),
            "new/grüße \" \\ 'x'.txt": "grüße\n".encode(),
            "new/with\nnewline": b"yes\n",
            "windows.txt": b"a\r\nb\r\n",
            "staged.txt": b"first\n",
            "blank.txt": b"a\n\nB\n\nc\n",
            "ignored.log": b"not this\n",
            "out/result": b"nor this\n",
            "forced.log": b"this one\n",
        },
    )
    ann(repository, "add", "staged.txt")
    ann(repository, "add", "-f", "forced.log")
    write(repository, {"staged.txt": b"second\n"})
    write(repository, {"intended.txt": b"intended\n"})
    ann(repository, "add", "-N", "intended.txt")
    (repository / "gone.txt").unlink()
    (repository / "old name.txt").rename(repository / "new name.txt")
    (repository / "run.sh").chmod(0o755)
    (repository / "link").symlink_to("train.py")
    (repository / "folder/file").unlink()
    (repository / "folder").rmdir()
    (repository / "folder").write_bytes(b"a file now\n")
    (repository / "empty").write_bytes(b"not empty")


def test_a_patch_on_a_fresh_clone_gives_the_same_tree(
    ann: Person, repository: Path, tmp_path: Path
) -> None:
    edit(ann, repository)
    taken = changes(repository, LIMIT)
    assert taken.left_out == []
    again = applied(repository, head(ann, repository), taken.patch, tmp_path / "again")
    expected = tree(repository)
    assert expected.pop("ignored.log") == ("file", b"not this\n")
    assert expected.pop("out/result") == ("file", b"nor this\n")
    assert tree(again) == expected


def test_settings_change_no_byte(
    ann: Person, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(ann, repository)
    hostile = changes(repository, LIMIT).patch
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert changes(repository, LIMIT).patch == hostile
    assert b"diff --git a/train.py b/train.py\n" in hostile
    assert b"\x1b" not in hostile
    assert b"+line thirty \n" in hostile
    assert b"+LOUD\n" in hostile


def test_the_repository_is_left_as_it_was(ann: Person, repository: Path) -> None:
    edit(ann, repository)
    before = digest_of(repository / ".git")
    changes(repository, LIMIT)
    additions(repository, {"added/file": b"content"})
    assert digest_of(repository / ".git") == before


def digest_of(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_clean_tree_has_no_patch(repository: Path) -> None:
    assert changes(repository, LIMIT).patch == b""


def test_what_python_compiled_is_left_out_also_where_nobody_ignores_it(repository: Path) -> None:
    write(repository, {"package/__pycache__/module.pyc": b"bytecode", "__pycache__/x.pyc": b""})
    assert changes(repository, LIMIT).patch == b""


def test_a_change_of_the_same_size_in_the_same_second_is_seen(
    ann: Person, repository: Path
) -> None:
    """The times that git compares are equal then."""
    write(repository, {"run.sh": b"echo adieu\n"})
    status = (repository / ".git/index").stat()
    os.utime(repository / "run.sh", ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert b"+echo adieu" in changes(repository, LIMIT).patch


@pytest.mark.parametrize("conversion", ["true", "input", "false"])
def test_line_ends_are_carried_as_they_are(ann: Person, tmp_path: Path, conversion: str) -> None:
    """Also those of files that git calls unchanged, since it would convert them."""
    with ann.settings.open("a") as settings:
        settings.write(f"[core]\nautocrlf = {conversion}\n")
    repository = ann.repository(tmp_path / "work", {"a.txt": b"one\r\n", "b.txt": b"two\r\n"})
    write(repository, {"b.txt": b"two\r\nthree\r\n"})
    taken = changes(repository, LIMIT)
    again = applied(repository, head(ann, repository), taken.patch, tmp_path / "again")
    assert tree(again) == tree(repository)


def test_a_large_file_is_named(ann: Person, repository: Path) -> None:
    write(repository, {"big.bin": b"x" * (LIMIT + 1), "staged.bin": b"y" * 20_000})
    write(repository, {"train.py": b"z" * 30_000, "small.txt": b"small\n"})
    ann(repository, "add", "staged.bin")
    taken = changes(repository, LIMIT)
    assert sorted(taken.left_out) == [
        "big.bin (10 kB)",
        "staged.bin (20 kB)",
        "train.py (30 kB)",
    ]
    assert taken.patch.count(b"diff --git") == 1
    assert b"small.txt" in taken.patch


def test_a_repository_inside_is_named(ann: Person, repository: Path, tmp_path: Path) -> None:
    ann(repository, "init", "-q", "vendored")
    write(repository / "vendored", {"code.py": b"pass\n"})
    ann.commit(repository / "vendored")
    assert changes(repository, LIMIT).left_out == ["vendored/ (a repository of its own)"]


def test_added_files_follow_the_patch(ann: Person, repository: Path, tmp_path: Path) -> None:
    edit(ann, repository)
    patch = changes(repository, LIMIT).patch
    extra = {".xmcloud-local/pkg/__init__.py": b"x = 1\n", ".xmcloud-local/pkg/a.bin": b"\0\1"}
    patch += additions(repository, extra)
    again = applied(repository, head(ann, repository), patch, tmp_path / "again")
    found = tree(again)
    assert {name: found[name] for name in extra} == {n: ("file", c) for n, c in extra.items()}


def test_why_git_refuses_is_told(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="not a git repository"):
        changes(tmp_path, LIMIT)
