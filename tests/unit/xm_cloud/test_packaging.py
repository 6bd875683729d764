import hashlib
import io
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.build_service import MemoryBuildService
from tests.support.tars import tarfile
from xmcloud import xm
from xmcloud.core.errors import InvalidInput, NotFound
from xmcloud.core.specs import Binary, Command, Image, PythonSource
from xmcloud.xm_cloud.executors import Kubernetes, Local, Overflow, Vertex, WorkerPool
from xmcloud.xm_cloud.packaging.images import image_name
from xmcloud.xm_cloud.packaging.package import Packaged, package
from xmcloud.xm_cloud.unsupported import Unsupported


@pytest.fixture
def blobs() -> MemoryBuildService:
    return MemoryBuildService()


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever this machine has."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


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


def one(blobs: MemoryBuildService, packageable: xm.Packageable) -> Packaged:
    [packaged] = package(blobs, [packageable])
    return packaged


def source(packaged: Packaged) -> PythonSource:
    assert isinstance(packaged.executable, PythonSource)
    return packaged.executable


def test_a_local_binary_runs_in_place(
    tmp_path: Path, blobs: MemoryBuildService, monkeypatch: pytest.MonkeyPatch
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


def test_a_binary_for_workers_is_uploaded(tmp_path: Path, blobs: MemoryBuildService) -> None:
    packaged = one(blobs, xm.binary(WorkerPool.Spec(), str(program(tmp_path))))
    digest = hashlib.sha256(b"#!/bin/sh\n").hexdigest()
    assert packaged.executable == Binary(file=digest, name="program")
    assert blobs.blobs[digest] == b"#!/bin/sh\n"


def test_a_binary_must_be_a_program(tmp_path: Path, blobs: MemoryBuildService) -> None:
    with pytest.raises(InvalidInput, match="there is no file"):
        one(blobs, xm.binary(Local.Spec(), str(tmp_path / "missing")))
    program(tmp_path).chmod(0o644)
    with pytest.raises(InvalidInput, match=r"chmod \+x"):
        one(blobs, xm.binary(Local.Spec(), str(tmp_path / "program")))


def test_a_module_becomes_a_source_archive(code: Path, blobs: MemoryBuildService) -> None:
    made = source(one(blobs, xm.python_container(Local.Spec(), xm.ModuleName("train"), str(code))))
    assert made.entrypoint == ("python", "-m", "train")
    assert (made.directory, made.requirements) == (".", "numpy>=2\n")
    with tarfile.open(fileobj=io.BytesIO(blobs.blobs[made.archive])) as archive:
        assert archive.getnames() == ["requirements.txt", "train.py"]


def test_a_deep_module_finds_itself_by_the_name_of_its_folder(
    code: Path, blobs: MemoryBuildService
) -> None:
    packageable = xm.python_container(
        Local.Spec(), xm.ModuleName("trainer.train"), str(code), use_deep_module=True
    )
    made = source(one(blobs, packageable))
    with tarfile.open(fileobj=io.BytesIO(blobs.blobs[made.archive])) as archive:
        assert archive.getnames() == ["trainer/requirements.txt", "trainer/train.py"]


@pytest.mark.parametrize("deep", [False, True])
def test_commands_receive_the_arguments(
    code: Path, blobs: MemoryBuildService, tmp_path: Path, deep: bool
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


def test_an_archive_is_uploaded_once(code: Path, blobs: MemoryBuildService) -> None:
    packageable = xm.python_container(Local.Spec(), xm.ModuleName("train"), str(code))
    first, second = one(blobs, packageable), one(blobs, packageable)
    assert first.executable == second.executable
    assert blobs.puts == 1


def test_the_order_is_kept(tmp_path: Path, blobs: MemoryBuildService) -> None:
    names = [f"program{number}" for number in range(12)]
    packageables = [xm.binary(Local.Spec(), str(program(tmp_path, name))) for name in names]
    assert [packaged.name for packaged in package(blobs, packageables)] == names


def test_the_first_fault_is_raised(tmp_path: Path, blobs: MemoryBuildService) -> None:
    good = xm.binary(Local.Spec(), str(program(tmp_path)))
    bad = [xm.binary(Local.Spec(), str(tmp_path / name)) for name in ("one", "two")]
    with pytest.raises(InvalidInput, match="one"):
        package(blobs, [good, *bad])


@pytest.mark.parametrize(
    "packageable",
    [
        xm.dockerfile_container(Local.Spec(), str(Path(__file__).parent), __file__),
        xm.python_container(Local.Spec(), xm.ModuleName("a"), str(Path(__file__).parent), "base"),
        xm.container(Local.Spec(), __file__.removesuffix(".py") + ".tar"),
    ],
    ids=lambda packageable: type(packageable.executable_spec).__name__,
)
def test_without_an_engine_images_are_refused(
    packageable: xm.Packageable,
    blobs: MemoryBuildService,
    tmp_path: Path,
) -> None:
    if isinstance(packageable.executable_spec, xm.Container):
        (tmp_path / "image.tar").touch()
        packageable = xm.container(Local.Spec(), str(tmp_path / "image.tar"))
    with pytest.raises(Unsupported, match=r"needs a Docker engine .* DOCKER_HOST"):
        one(blobs, packageable)


def test_an_image_stays_as_it_is(blobs: MemoryBuildService) -> None:
    for spec in (Local.Spec(), WorkerPool.Spec(), Vertex.Spec(), Kubernetes.Spec()):
        packaged = one(blobs, xm.container(spec, "registry/image:tag"))
        assert packaged.executable == Image(image="registry/image:tag")


@pytest.mark.parametrize("spec", [Vertex.Spec(), Kubernetes.Spec(), Overflow.Spec()])
def test_the_cloud_runs_no_programs(
    spec: xm.ExecutorSpec, tmp_path: Path, blobs: MemoryBuildService
) -> None:
    with pytest.raises(Unsupported, match=r"Binary 'program' is a program.*python_container"):
        one(blobs, xm.binary(spec, str(program(tmp_path))))


def test_images_for_the_cloud_are_asked_for_once(code: Path, blobs: MemoryBuildService) -> None:
    spec = xm.PythonContainer(xm.ModuleName("train"), str(code))
    tagged = Vertex.Spec(push_image_tag="registry/mine:v1")
    first, second, third = package(
        blobs, [xm.Packageable(spec, each) for each in (Kubernetes.Spec(), Overflow.Spec(), tagged)]
    )
    assert first.executable == second.executable != third.executable
    assert blobs.puts == 1
    asked = {request.spec.push_image_tag: request.spec for request in blobs.requested}
    assert first.executable == Image(build=asked[""].id)
    assert asked["registry/mine:v1"].name == asked[""].name == "trainer"


def test_workers_get_images_of_what_needs_one(code: Path, blobs: MemoryBuildService) -> None:
    for options in ({"base_image": "base"}, {"docker_instructions": ["RUN true"]}):
        spec = xm.PythonContainer(xm.ModuleName("train"), str(code), **options)
        assert isinstance(one(blobs, xm.Packageable(spec, WorkerPool.Spec())).executable, Image)
    plain = xm.PythonContainer(xm.ModuleName("train"), str(code))
    assert isinstance(one(blobs, xm.Packageable(plain, WorkerPool.Spec())).executable, PythonSource)


def test_a_context_holds_all_that_the_build_needs(code: Path, blobs: MemoryBuildService) -> None:
    commands = xm.CommandList(["ls"])
    one(blobs, xm.python_container(Vertex.Spec(), commands, str(code)))
    spec = blobs.requested[0].spec
    with tarfile.open(fileobj=io.BytesIO(blobs.blobs[spec.archive])) as archive:
        names = archive.getnames()
        dockerfile = archive.extractfile(spec.dockerfile)
        assert dockerfile is not None
        assert dockerfile.read().startswith(b"FROM python:3.")
    assert names == [
        "trainer/requirements.txt",
        "trainer/train.py",
        ".xmcloud/Dockerfile",
        ".xmcloud/entrypoint.py",
        ".xmcloud/commands.sh",
    ]


def test_a_context_keeps_links_modes_and_folders(code: Path, blobs: MemoryBuildService) -> None:
    (code / "link").symlink_to("train.py")
    (code / "empty").mkdir()
    (code / "train.py").chmod(0o640)
    program(code)
    one(blobs, xm.python_container(Vertex.Spec(), xm.ModuleName("train"), str(code)))
    data = blobs.blobs[blobs.requested[0].spec.archive]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getmember("trainer/link").linkname == "train.py"
        assert archive.getmember("trainer/empty").isdir()
        assert archive.getmember("trainer/program").mode == 0o755
        assert (
            archive.getmember("trainer/train.py").mode == (code / "train.py").stat().st_mode & 511
        )


def test_an_error_waits_for_the_others(tmp_path: Path, blobs: MemoryBuildService) -> None:
    bad = xm.binary(WorkerPool.Spec(), str(tmp_path / "missing"))
    good = [xm.binary(WorkerPool.Spec(), str(program(tmp_path, f"p{n}"))) for n in range(12)]
    for number in range(12):
        (tmp_path / f"p{number}").write_text(str(number))
    with pytest.raises(InvalidInput, match="missing"):
        package(blobs, [bad, *good])
    assert blobs.puts == 12


@pytest.mark.parametrize(
    ("name", "made"),
    [("My_Code", "my-code"), ("__x__", "x"), ("äß", "image"), ("a" * 200, "a" * 100)],
)
def test_names_of_images(name: str, made: str) -> None:
    assert image_name(name) == made


def test_an_unknown_executor_spec_is_refused(tmp_path: Path, blobs: MemoryBuildService) -> None:
    with pytest.raises(Unsupported, match=r"Local\.Spec"):
        one(blobs, xm.binary(xm.ExecutorSpec(), str(program(tmp_path))))


@pytest.mark.parametrize("lock", ["uv.lock", "poetry.lock", "pylock.toml", "requirements.lock"])
def test_a_lock_of_the_folder_is_left_to_the_worker(
    code: Path, blobs: MemoryBuildService, lock: str
) -> None:
    (code / lock).write_text("")
    made = source(one(blobs, xm.python_container(Local.Spec(), xm.ModuleName("train"), str(code))))
    assert made.requirements == ""


def test_interrupted_it_waits_for_nothing_that_is_under_way(code: Path) -> None:
    answers, was_waited_for = threading.Event(), threading.Event()

    class Silent(MemoryBuildService):
        def has_blob(self, digest: str) -> bool:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if not answers.wait(10):
                was_waited_for.set()
            raise NotFound("blob", digest)

    with pytest.raises(KeyboardInterrupt):
        package(Silent(), [xm.binary(WorkerPool.Spec(), str(program(code)))])
    answers.set()
    assert not was_waited_for.is_set()
