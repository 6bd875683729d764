import hashlib
import io
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.tars import tarfile
from xmcloud import xm
from xmcloud.core.errors import InvalidInput, TooLarge
from xmcloud.core.models import Binary, Command, PythonSource
from xmcloud.xm_cloud.executors import Local, WorkerPool
from xmcloud.xm_cloud.packaging import Packaged, package
from xmcloud.xm_cloud.unsupported import Unsupported


class MemoryBlobs:
    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.puts = 0
        self._lock = threading.Lock()

    def has_blob(self, digest: str) -> bool:
        return digest in self.blobs

    def put_blob(self, digest: str, data: bytes) -> None:
        with self._lock:
            self.puts += 1
            self.blobs[digest] = data


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (folder / "requirements.txt").write_text("numpy>=2\n")
    return folder


def program(folder: Path, name: str = "program") -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def one(blobs: MemoryBlobs, packageable: xm.Packageable) -> Packaged:
    [packaged] = package(blobs, [packageable])
    return packaged


def source(packaged: Packaged) -> PythonSource:
    assert isinstance(packaged.executable, PythonSource)
    return packaged.executable


def test_a_local_binary_runs_in_place(
    tmp_path: Path, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program(tmp_path)
    packaged = one(blobs, xm.binary(Local.Spec(), "program", args={"a": 1}, env_vars={"E": "x"}))
    assert packaged.executable == Command(
        command=(str(tmp_path / "program"),), directory=str(tmp_path)
    )
    assert (packaged.name, packaged.args.to_argv(), packaged.env_vars) == (
        "program", ["--a=1"], {"E": "x"},
    )  # fmt: skip
    assert blobs.puts == 0


def test_a_binary_for_workers_is_uploaded(tmp_path: Path, blobs: MemoryBlobs) -> None:
    packaged = one(blobs, xm.binary(WorkerPool.Spec(), str(program(tmp_path))))
    digest = hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    assert packaged.executable == Binary(file=digest, name="program")
    assert blobs.blobs[digest] == b"#!/bin/sh\n"


def test_a_binary_must_be_a_program(tmp_path: Path, blobs: MemoryBlobs) -> None:
    with pytest.raises(InvalidInput, match="there is no file"):
        one(blobs, xm.binary(Local.Spec(), str(tmp_path / "missing")))
    program(tmp_path).chmod(0o644)
    with pytest.raises(InvalidInput, match=r"chmod \+x"):
        one(blobs, xm.binary(Local.Spec(), str(tmp_path / "program")))


def test_a_module_becomes_a_source_archive(code: Path, blobs: MemoryBlobs) -> None:
    made = source(one(blobs, xm.python_container(Local.Spec(), xm.ModuleName("train"), str(code))))
    assert made.entrypoint == ("python", "-m", "train")
    assert (made.directory, made.requirements) == (".", "numpy>=2\n")
    with tarfile.open(fileobj=io.BytesIO(blobs.blobs[made.archive])) as archive:
        assert archive.getnames() == ["requirements.txt", "train.py"]


def test_a_deep_module_finds_itself_by_the_name_of_its_folder(
    code: Path, blobs: MemoryBlobs
) -> None:
    packageable = xm.python_container(
        Local.Spec(), xm.ModuleName("trainer.train"), str(code), use_deep_module=True
    )
    made = source(one(blobs, packageable))
    with tarfile.open(fileobj=io.BytesIO(blobs.blobs[made.archive])) as archive:
        assert archive.getnames() == ["trainer/requirements.txt", "trainer/train.py"]


@pytest.mark.parametrize("deep", [False, True])
def test_commands_receive_the_arguments(
    code: Path, blobs: MemoryBlobs, tmp_path: Path, deep: bool
) -> None:
    commands = xm.CommandList(["echo begin", "printf '<%s>'"])
    made = source(
        one(blobs, xm.python_container(Local.Spec(), commands, str(code), use_deep_module=deep))
    )
    with tarfile.open(fileobj=io.BytesIO(blobs.blobs[made.archive])) as archive:
        archive.extractall(tmp_path / "work", filter="data")
    printed = subprocess.run(
        [*made.entrypoint, "--a=1 2", "$HOME"],
        cwd=tmp_path / "work",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed == "begin\n<--a=1 2><$HOME>"


def test_an_archive_is_uploaded_once(code: Path, blobs: MemoryBlobs) -> None:
    packageable = xm.python_container(Local.Spec(), xm.ModuleName("train"), str(code))
    first, second = one(blobs, packageable), one(blobs, packageable)
    assert first.executable == second.executable
    assert blobs.puts == 1


def test_the_order_is_kept(tmp_path: Path, blobs: MemoryBlobs) -> None:
    names = [f"program{number}" for number in range(12)]
    packageables = [xm.binary(Local.Spec(), str(program(tmp_path, name))) for name in names]
    assert [packaged.name for packaged in package(blobs, packageables)] == names


def test_the_first_fault_is_raised(tmp_path: Path, blobs: MemoryBlobs) -> None:
    good = xm.binary(Local.Spec(), str(program(tmp_path)))
    bad = [xm.binary(Local.Spec(), str(tmp_path / name)) for name in ("one", "two")]
    with pytest.raises(InvalidInput, match="one"):
        package(blobs, [good, *bad])


@pytest.mark.parametrize(
    "packageable",
    [
        xm.container(Local.Spec(), "image"),
        xm.bazel_binary(Local.Spec(), "//a:b"),
        xm.bazel_container(Local.Spec(), "//a:b.tar"),
        xm.dockerfile_container(Local.Spec(), "."),
    ],
    ids=lambda packageable: type(packageable.executable_spec).__name__,
)
def test_what_needs_a_container_or_a_build_is_refused(
    packageable: xm.Packageable, blobs: MemoryBlobs
) -> None:
    kind = type(packageable.executable_spec).__name__
    with pytest.raises(Unsupported, match=rf"{kind}.*python_container"):
        one(blobs, packageable)


def test_custom_images_are_refused(code: Path, blobs: MemoryBlobs) -> None:
    for field, options in (
        ("base_image", {"base_image": "python:3.11"}),
        ("docker_instructions", {"docker_instructions": ["RUN true"]}),
    ):
        spec = xm.PythonContainer(xm.ModuleName("train"), str(code), **options)
        with pytest.raises(Unsupported, match=f"{field}.*Leave {field} out"):
            one(blobs, xm.Packageable(spec, Local.Spec()))


def test_an_unknown_executor_spec_is_refused(tmp_path: Path, blobs: MemoryBlobs) -> None:
    with pytest.raises(Unsupported, match=r"Local\.Spec"):
        one(blobs, xm.binary(xm.ExecutorSpec(), str(program(tmp_path))))


def test_what_is_too_large_is_refused_before_it_is_sent(tmp_path: Path, blobs: MemoryBlobs) -> None:
    path = program(tmp_path)
    with path.open("r+b") as file:
        file.truncate(32 * 1024 * 1024 + 1)
    with pytest.raises(TooLarge, match="program"):
        one(blobs, xm.binary(WorkerPool.Spec(), str(path)))
    assert blobs.puts == 0
