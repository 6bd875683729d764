"""What goes into the archive of a program and its runfiles."""

import os
from pathlib import Path

import pytest

from tests.support.tars import tarfile
from xmcloud.xm_cloud.packaging.bazel_targets import BazelOutputs
from xmcloud.xm_cloud.packaging.runfiles import BadRunfile, pack_binary


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in a folder as Bazel leaves it, and elsewhere what its runfiles lead to."""
    path = tmp_path / "bin" / "run"
    runfiles = path.with_name("run.runfiles") / "main"
    runfiles.mkdir(parents=True)
    path.write_text("program")
    path.chmod(0o555)
    (runfiles / "run").symlink_to(path)
    (runfiles.parent / "MANIFEST").write_text(f"main/run {path}\n")
    return path


def packed(program: Path) -> dict[str, tuple[int, str]]:
    """The mode of each member, and its content or `-> link`."""
    found = {}
    outputs = BazelOutputs("//pkg:run", (program,))
    with pack_binary(outputs) as spool, tarfile.open(fileobj=spool.file) as archive:
        for member in archive:
            file = None if member.issym() else archive.extractfile(member)
            content = file.read().decode() if file else f"-> {member.linkname}"
            found[member.name] = (member.mode, content)
    return found


def test_the_program_leads_to_itself_among_its_runfiles(program: Path) -> None:
    assert packed(program) == {
        "run.runfiles/main/run": (0o755, "program"),
        "run": (0o777, "-> run.runfiles/main/run"),
    }


def test_a_program_that_is_not_among_its_runfiles_is_there_itself(program: Path) -> None:
    (program.with_name("run.runfiles") / "main" / "run").unlink()
    assert packed(program) == {"run": (0o755, "program")}


def test_links_to_files_and_folders_elsewhere_become_what_they_lead_to(
    program: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (data / "below").mkdir(parents=True)
    (data / "below" / "deep").write_text("deep")
    (data / "below" / "deep").chmod(0o600)
    main = program.with_name("run.runfiles") / "main"
    (main / "data").symlink_to(data)
    (main / "near").symlink_to("../../../data/below/deep")
    found = packed(program)
    assert found["run.runfiles/main/data/below/deep"] == (0o644, "deep")
    assert found["run.runfiles/main/near"] == (0o644, "deep")


def test_links_from_one_runfile_to_another_stay(program: Path) -> None:
    runfiles = program.with_name("run.runfiles")
    (runfiles / "python").mkdir()
    (runfiles / "python" / "python3.11").write_text("interpreter")
    (runfiles / "main" / "python").symlink_to("../python/python3.11")
    (runfiles / "main" / "folder").symlink_to("../python")
    found = packed(program)
    assert found["run.runfiles/main/python"] == (0o777, "-> ../python/python3.11")
    assert found["run.runfiles/main/folder"] == (0o777, "-> ../python")


def test_a_folder_that_a_link_in_it_leads_back_to_is_refused(program: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "again").symlink_to(data)
    (program.with_name("run.runfiles") / "data").symlink_to(data)
    with pytest.raises(BadRunfile, match=r"run.runfiles/data/again leads back"):
        packed(program)


def test_a_link_to_nothing_is_refused(program: Path, tmp_path: Path) -> None:
    (program.with_name("run.runfiles") / "gone").symlink_to(tmp_path / "gone")
    with pytest.raises(BadRunfile, match=r"run.runfiles/gone cannot be read \(No such file"):
        packed(program)


def test_times_and_rights_that_differ_between_machines_do_not_count(program: Path) -> None:
    outputs = BazelOutputs("//pkg:run", (program,))
    with pack_binary(outputs) as first:
        digest = first.digest
    os.utime(program, (1, 1))
    program.chmod(0o700)
    with pack_binary(outputs) as second:
        assert second.digest == digest
