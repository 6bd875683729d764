import hashlib
import io
import os
import subprocess
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.tars import tarfile
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.archives.archive import pack as spooled
from xmcloud.xm_cloud.archives.sizes import ArchiveTooLarge
from xmcloud.xm_cloud.archives.spool import IN_MEMORY_BYTES


def pack(folder: Path, prefix: str = "", extra: Mapping[str, bytes] | None = None) -> bytes:
    with spooled(folder, prefix, extra) as archive:
        data = archive.file.read()
        assert (archive.size, archive.digest) == (len(data), hashlib.sha256(data).hexdigest())
    return data


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


def test_the_bytes_are_these_everywhere(tmp_path: Path) -> None:
    """Another digest here means that every team's code is uploaded and built again."""
    put(tmp_path / "bin" / "run.sh", "#!/bin/sh\n" * 10_000)
    (tmp_path / "bin" / "run.sh").chmod(0o755)
    put(tmp_path / ("long-" * 20) / "naïve.txt", "text")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("bin")
    for path in tmp_path.rglob("*"):
        if path.is_dir() or path.suffix == ".txt":
            path.chmod(0o755 if path.is_dir() else 0o644)
    with spooled(tmp_path, "pkg/", {"start": b"x"}) as archive:
        assert archive.digest == "d01ff23f253e9574a9f84f12aa1017309bce401fbe5294fcdc4cb59bf49703d5"


def test_other_programs_read_it(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    put(source / ("deep/" * 30) / "é.txt", "text")
    put(source / "big", "x" * 200_000)
    (source / "link").symlink_to(f"{'deep/' * 30}é.txt")
    (source / os.fsdecode(b"not-\xff-unicode")).write_bytes(b"")
    (source / "empty").mkdir()
    target.mkdir()
    subprocess.run(["tar", "-xzf", "-"], input=pack(source), cwd=target, check=True)
    assert (target / "link").read_text() == "text"
    assert (target / "big").read_text() == "x" * 200_000
    assert sorted(os.listdir(os.fsencode(target))) == sorted(os.listdir(os.fsencode(source)))
    members(pack(source))


def test_empty_folders_are_kept(tmp_path: Path) -> None:
    put(tmp_path / "a.py")
    put(tmp_path / "cached" / "__pycache__" / "a.pyc")
    (tmp_path / "out" / "logs").mkdir(parents=True)
    found = members(pack(tmp_path))
    assert list(found) == ["a.py", "out/logs"]
    assert found["out/logs"].isdir()


def test_a_folder_named_from_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / ".git" / "HEAD")
    put(tmp_path / ".gitignore", "secret\n")
    put(tmp_path / "code" / "a.py")
    put(tmp_path / "code" / "secret")
    monkeypatch.chdir(tmp_path / "code")
    assert names(Path()) == ["a.py"]
    Path("out").symlink_to("../secret")
    with pytest.raises(InvalidInput, match="inside the folder"):
        pack(Path())


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="files that are not ignored"):
        pack(tmp_path)
    assert list(members(pack(tmp_path, extra={"run": b""}))) == ["run"]


def test_memory_holds_little_of_it(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(8 * IN_MEMORY_BYTES)
    tracemalloc.start()
    try:
        with spooled(tmp_path) as archive:
            assert archive.size > 8 * IN_MEMORY_BYTES
        assert tracemalloc.get_traced_memory()[1] < 3 * IN_MEMORY_BYTES
    finally:
        tracemalloc.stop()


def sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_a_large_archive_is_told_with_what_makes_it_large(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "train.py", "1")
    sparse(tmp_path / "data" / "raw" / "images.bin", 70_000_000)
    sparse(tmp_path / "model.ckpt", 29_000_000)
    with spooled(tmp_path):
        assert capsys.readouterr().err == ""
    sparse(tmp_path / "notes", 1_000_000)
    with spooled(tmp_path) as archive:
        assert archive.size > 100_000_000
    assert capsys.readouterr().err == (
        f"xmcloud: The archive of {tmp_path} has 100 MB; the largest in it: "
        "data/raw/images.bin (70 MB), model.ckpt (29 MB), notes (1 MB). "
        "Name what the code does not need in .xmcloudignore.\n"
    )


def test_above_the_limit_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "train.py", "1")
    sparse(tmp_path / "data" / "huge", 2 * 1024**3)
    before = (tmp_path / "data" / "huge").stat()
    os.utime(tmp_path / "data" / "huge", ns=(0, before.st_mtime_ns))
    with pytest.raises(ArchiveTooLarge, match=r"data/huge \(2.15 GB\)") as raised:
        pack(tmp_path)
    assert "2.15 GB; the limit is 1.07 GB" in raised.value.detail
    assert ".xmcloudignore" in raised.value.remedy
    assert "XMCLOUD_ARCHIVE_LIMIT (now 1073741824 bytes)" in raised.value.remedy
    assert (tmp_path / "data" / "huge").stat().st_atime_ns == 0
    put(tmp_path / ".xmcloudignore", "data/\n")
    assert names(tmp_path) == [".xmcloudignore", "train.py"]


def test_the_limit_can_be_set_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a", "x" * 70_000)
    size = len(pack(tmp_path))
    monkeypatch.setenv("XMCLOUD_ARCHIVE_LIMIT", str(size))
    assert len(pack(tmp_path)) == size
    monkeypatch.setenv("XMCLOUD_ARCHIVE_LIMIT", str(size - 1))
    with pytest.raises(ArchiveTooLarge):
        pack(tmp_path)
