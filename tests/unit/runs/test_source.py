"""Which code of a script is sent, and what is said about the rest."""

import gzip
import io
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.blobs import MemoryBlobs
from tests.unit.runs.gits import Person, applied, write
from tests.unit.runs.test_entry import facts
from xmcloud.core.specs import GitSource, PythonSource
from xmcloud.runs.capture.source import Captured, capture, snapshot

FILES = {"train.py": b"import lib\n", "lib.py": b"pass\n"}


def captured(folder: Path, outside: Path | None = None) -> tuple[Captured, dict[str, bytes]]:
    """The script `train.py` of the folder, and the blobs that were sent."""
    blobs = MemoryBlobs()
    about = facts(folder, "train.py", main="train.py")
    files = {"__main__": str(folder / "train.py"), "lib": str((outside or folder) / "lib.py")}
    taken = snapshot(about)
    return capture(taken, about, list(files), files, blobs), blobs.blobs


def names_in(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as tar:
        return sorted(tar.getnames())


def test_of_a_repository_the_revision_and_the_rest_are_sent(ann: Person, tmp_path: Path) -> None:
    repository = ann.repository(tmp_path / "work", FILES)
    found, blobs = captured(repository)
    assert isinstance(found.executable, GitSource)
    assert (found.executable.diff, found.executable.bundle) == (None, None)
    assert (blobs, found.notes) == ({}, [])
    write(repository, {"lib.py": b"changed\n", "big.bin": b"x" * 10_000_001})
    found, blobs = captured(repository)
    assert isinstance(found.executable, GitSource)
    assert found.executable.diff is not None
    assert b"+changed" in blobs[found.executable.diff]
    assert found.notes == ["not captured: big.bin (10 MB)"]


def test_the_limit_of_a_file_is_a_setting(
    ann: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = ann.repository(tmp_path / "work", FILES)
    write(repository, {"big.bin": b"x" * 2000})
    monkeypatch.setenv("XMCLOUD_FILE_LIMIT", "1kB")
    assert captured(repository)[0].notes == ["not captured: big.bin (2 kB)"]


def test_code_from_outside_is_in_the_patch(ann: Person, tmp_path: Path) -> None:
    repository = ann.repository(tmp_path / "work", {"train.py": b"import lib\n"})
    write(tmp_path / "outside", {"lib.py": b"x = 1\n"})
    found, blobs = captured(repository, tmp_path / "outside")
    assert isinstance(found.executable, GitSource)
    assert found.environment == {"PYTHONPATH": ".xmcloud-local"}
    assert found.executable.diff is not None
    clone = applied(
        tmp_path / "work.git",
        found.executable.commit,
        blobs[found.executable.diff],
        tmp_path / "again",
    )
    assert (clone / ".xmcloud-local/lib.py").read_bytes() == b"x = 1\n"


def test_without_a_remote_the_whole_repository_is_archived(ann: Person, tmp_path: Path) -> None:
    repository = ann.repository(tmp_path / "work", FILES | {"sub/other.py": b""})
    ann(repository, "remote", "remove", "origin")
    found, blobs = captured(repository)
    assert isinstance(found.executable, PythonSource)
    names = names_in(blobs[found.executable.archive])
    assert {"train.py", "lib.py", "sub/other.py"} <= set(names)
    assert found.notes == ["no git remote that others reach: work was archived"]


def test_a_folder_that_is_too_large_is_left_for_what_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "plain"
    write(folder, FILES | {"data/huge.bin": b"x" * 60_000})
    monkeypatch.setenv("XMCLOUD_ARCHIVE_LIMIT", "50kB")
    found, blobs = captured(folder)
    assert isinstance(found.executable, PythonSource)
    assert names_in(blobs[found.executable.archive]) == ["lib.py", "train.py"]
    assert "data/huge.bin (60 kB)" in found.notes[0]


def test_a_machine_without_git_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "plain", FILES)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    found, _ = captured(tmp_path / "plain")
    assert found.notes == ["no git repository: plain was archived"]
