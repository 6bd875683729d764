import hashlib
import io
import os
from pathlib import Path

import pytest

from tests.support.tars import tarfile
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.archive import pack


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


def names(folder: Path) -> list[str]:
    return list(members(pack(folder)))


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    for place, order in (
        ("one", ["b.py", "a.py", "pkg/c.py"]),
        ("two", ["pkg/c.py", "a.py", "b.py"]),
    ):
        for name in order:
            put(tmp_path / place / name, name)
    os.utime(tmp_path / "two" / "a.py", (1, 1))
    packed = pack(tmp_path / "one")
    assert hashlib.sha256(packed).digest() == hashlib.sha256(pack(tmp_path / "two")).digest()
    assert list(members(packed)) == ["a.py", "b.py", "pkg/c.py"]


def test_other_content_gives_other_bytes(tmp_path: Path) -> None:
    put(tmp_path / "a.py", "1")
    before = pack(tmp_path)
    put(tmp_path / "a.py", "2")
    assert pack(tmp_path) != before


def test_modes_and_links_are_kept_and_owners_are_not(tmp_path: Path) -> None:
    put(tmp_path / "bin" / "run.sh", "#!/bin/sh\n")
    (tmp_path / "bin" / "run.sh").chmod(0o750)
    (tmp_path / "link").symlink_to("bin/run.sh")
    (tmp_path / "folder").symlink_to("bin")
    found = members(pack(tmp_path))
    assert found["bin/run.sh"].mode == 0o750
    assert (found["link"].issym(), found["link"].linkname) == (True, "bin/run.sh")
    assert (found["folder"].issym(), found["folder"].linkname) == (True, "bin")
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in found.values()} == {
        (0, 0, "", "", 315_532_800)
    }


def test_the_archive_unpacks_to_what_it_was_made_of(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    put(source / "é" / "naïve name.txt", "text")
    (source / "link").symlink_to("é/naïve name.txt")
    with tarfile.open(fileobj=io.BytesIO(pack(source, "pkg/", {"run": b"x"}))) as archive:
        archive.extractall(target, filter="data")
    assert (target / "pkg" / "link").read_text() == "text"
    assert os.access(target / "pkg" / "run", os.X_OK)


@pytest.mark.parametrize("target", ["/etc/hostname", "../outside"])
def test_a_link_that_leads_out_is_refused(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "data").symlink_to(target)
    with pytest.raises(InvalidInput, match=r"data.*\.xmcloudignore"):
        pack(folder)
    put(folder / ".xmcloudignore", "data\n")
    assert names(folder) == [".xmcloudignore"]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="It must be a folder"):
        pack(tmp_path / "missing")


def test_ignored_files_stay_out(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "*.ckpt\n/data/\n!keep.ckpt\n")
    put(tmp_path / "pkg" / ".gitignore", "secret\n")
    for name in (
        "a.ckpt", "keep.ckpt", "data/big", "pkg/data/small", "pkg/secret", "secret",
        "pkg/b.ckpt", ".git/config", "__pycache__/a.pyc",
    ):  # fmt: skip
        put(tmp_path / name)
    assert names(tmp_path) == [
        ".gitignore", "keep.ckpt", "pkg/.gitignore", "pkg/data/small", "secret",
    ]  # fmt: skip


def test_xmcloudignore_decides_over_gitignore(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "*.csv\n")
    put(tmp_path / ".xmcloudignore", "!needed.csv\nnotes/\n")
    for name in ("needed.csv", "other.csv", "notes/a", "main.py"):
        put(tmp_path / name)
    assert names(tmp_path) == [".gitignore", ".xmcloudignore", "main.py", "needed.csv"]


def test_the_rules_of_the_repository_count_in_a_folder_of_it(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "outside\n")
    put(tmp_path / "repo" / ".git" / "HEAD")
    put(tmp_path / "repo" / ".gitignore", "/jobs/train/local.py\nsecret\n")
    for name in ("local.py", "secret", "outside", "train.py"):
        put(tmp_path / "repo" / "jobs" / "train" / name)
    assert names(tmp_path / "repo" / "jobs" / "train") == ["outside", "train.py"]


def test_without_a_repository_no_folder_above_counts(tmp_path: Path) -> None:
    put(tmp_path / ".gitignore", "*\n")
    put(tmp_path / "code" / "a.py")
    assert names(tmp_path / "code") == ["a.py"]
