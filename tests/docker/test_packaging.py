"""Executables become images on the engine of this machine, and start as they should."""

import json
import tarfile
from io import BytesIO
from itertools import count
from pathlib import Path

import pytest
from docker import DockerClient

from tests.support.build_service import MemoryBuildService
from tests.support.engine import DockerEngine
from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.core.specs import Image
from xmcloud.xm_cloud import flags
from xmcloud.xm_cloud.executors import Kubernetes, Local, Vertex
from xmcloud.xm_cloud.packaging.contexts import python_context
from xmcloud.xm_cloud.packaging.images import BuildFailed
from xmcloud.xm_cloud.packaging.local_builds import EngineRefused, LocalEngine
from xmcloud.xm_cloud.packaging.package import package

pytestmark = pytest.mark.docker

SHOW = """\
import json, os, sys
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("LANG")]))
"""
HARD = ["--a=1 2", "it's", '"quoted"', "$HOME `id` \\", "äß→🙂", "two\nlines", "", "*", "-"]


@pytest.fixture
def engine(docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> DockerEngine:
    for name, value in docker_engine.environment.items():
        monkeypatch.setenv(name, value)
    return docker_engine


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "trainer"
    folder.mkdir()
    (folder / "show.py").write_text(SHOW)
    (folder / "helper.py").write_text("NAME = 'helper'\n")
    return folder


def image_of(packageable: xm.Packageable) -> str:
    [packaged] = package(MemoryBuildService(), [packageable])
    assert isinstance(packaged.executable, Image)
    return packaged.executable.image


def run(
    engine: DockerEngine,
    image: str,
    *args: str,
    entrypoint: list[str] | None = None,
    environment: dict[str, str] | None = None,
) -> str:
    """What it prints, on stdout."""
    output = engine.client().containers.run(
        image,
        list(args),
        entrypoint=entrypoint,
        environment=environment,
        network_mode="host",
        remove=True,
    )
    return output.decode()


def shown(engine: DockerEngine, image: str, *args: str) -> tuple[list[str], str, str | None]:
    argv, folder, lang = json.loads(run(engine, image, *args))
    return argv, folder, lang


def python(
    engine: DockerEngine,
    code: Path,
    entrypoint: xm.ModuleName | xm.CommandList,
    docker_instructions: list[str] | None = None,
    use_deep_module: bool = False,
) -> xm.Packageable:
    return xm.python_container(
        Local.Spec(), entrypoint, str(code), engine.base_image, docker_instructions, use_deep_module
    )


def test_a_module_gets_its_arguments_exactly(engine: DockerEngine, code: Path) -> None:
    image = image_of(python(engine, code, xm.ModuleName("show")))
    assert image.startswith("xmcloud/trainer:")
    assert shown(engine, image, *HARD) == (HARD, "/trainer", "C.UTF-8")
    assert shown(engine, image) == ([], "/trainer", "C.UTF-8")


def test_commands_run_in_order_and_get_the_arguments(engine: DockerEngine, code: Path) -> None:
    commands = xm.CommandList(["[[ begin == b* ]] && echo begin", "python3 show.py first $@"])
    image = image_of(python(engine, code, commands))
    begin, rest = run(engine, image, *HARD).split("\n", 1)
    assert (begin, json.loads(rest)[0]) == ("begin", ["first", *HARD])


def test_a_deep_module_finds_its_package(engine: DockerEngine, code: Path) -> None:
    (code / "deep.py").write_text("from trainer import helper\nprint(helper.NAME)\n")
    image = image_of(python(engine, code, xm.ModuleName("trainer.deep"), use_deep_module=True))
    assert run(engine, image) == "helper\n"


def test_requirements_are_installed(engine: DockerEngine, code: Path) -> None:
    (code / "requirements.txt").write_text("six\n")
    (code / "main.py").write_text("import six\nprint(six.next(iter('a')))\n")
    assert run(engine, image_of(python(engine, code, xm.ModuleName("main")))) == "a\n"


def test_instructions_say_where_the_code_goes(engine: DockerEngine, code: Path) -> None:
    instructions = ["COPY trainer/show.py /opt/app/show.py", "USER 1000", "WORKDIR /opt/app"]
    image = image_of(python(engine, code, xm.ModuleName("show"), instructions))
    assert shown(engine, image, "x")[:2] == (["x"], "/opt/app")
    found = run(engine, image, entrypoint=["sh", "-c", "ls /; id -u; id -un"])
    assert "trainer" not in found
    assert found.endswith("1000\nclouduser\n")


def test_the_same_package_is_built_once(
    engine: DockerEngine, code: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packageable = python(engine, code, xm.ModuleName("show"))
    (code / "once.txt").write_text("once")
    first = image_of(packageable)
    capsys.readouterr()
    second = image_of(packageable)
    assert capsys.readouterr().err == f"xmcloud: image trainer: already built ({second})\n"
    (code / "once.txt").write_text("twice")
    assert len({first, second, image_of(packageable)}) == 2


def test_a_failing_build_names_its_step_and_last_lines(engine: DockerEngine, code: Path) -> None:
    bad = python(engine, code, xm.ModuleName("show"), ["RUN echo some sign && exit 3"])
    good = python(engine, code, xm.ModuleName("show"), ["COPY trainer /parallel", "WORKDIR /"])
    with pytest.raises(BuildFailed, match=r"image trainer .* step \d/\d+: RUN echo") as caught:
        package(MemoryBuildService(), [bad, good])
    assert "some sign" in caught.value.lines
    assert "returned a non-zero code: 3" in str(caught.value)
    copied = [i for i in engine.client().images.list("xmcloud/trainer") if "/" in i.tags[0]]
    assert any(i.attrs["Config"]["WorkingDir"] == "/" for i in copied)


def test_a_dockerfile_that_is_none_is_refused(engine: DockerEngine, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("SELECT 1\n")
    with pytest.raises(BuildFailed, match="SELECT"):
        image_of(xm.dockerfile_container(Local.Spec(), str(tmp_path)))


@pytest.mark.parametrize(
    ("start", "args", "printed"),
    [
        ('ENTRYPOINT ["echo", "a b"]\nCMD ["c"]', [], "a b c\n"),
        ('CMD ["c"]\nENTRYPOINT ["echo", "a b"]', ["d  e"], "a b d  e\n"),
        ("ENTRYPOINT echo $HOME", ["ignored"], "/root\n"),
        ('ENTRYPOINT ["echo", \\\n  # why\n  "%objectname(b)%"]', ["$X"], "%objectname(b)% $X\n"),
        ('CMD ["echo", "only"]', [], "only\n"),
    ],
)
def test_a_dockerfile_starts_as_it_says(
    engine: DockerEngine, tmp_path: Path, start: str, args: list[str], printed: str
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {engine.base_image}\n{start}")
    image = image_of(xm.dockerfile_container(Local.Spec(), str(tmp_path)))
    assert run(engine, image, *args) == printed


def test_a_dockerfile_may_lie_elsewhere(engine: DockerEngine, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "kept.txt").write_text("kept")
    (context / "left.txt").write_text("left")
    (context / ".dockerignore").write_text("*\n!kept.txt\n")
    (tmp_path / "other.Dockerfile").write_text(
        f"FROM {engine.base_image}\nWORKDIR /all\nCOPY . .\nENTRYPOINT ls -A\n"
    )
    file = str(tmp_path / "other.Dockerfile")
    image = image_of(xm.dockerfile_container(Local.Spec(), str(context), file))
    assert run(engine, image).split() == [".xmcloud", "kept.txt"]


def test_without_python_the_entrypoint_starts_all_the_same(
    engine: DockerEngine, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(
        f'FROM {engine.base_image}\nRUN rm /usr/bin/python3*\nENTRYPOINT ["echo"]\n'
    )
    image = image_of(xm.dockerfile_container(Local.Spec(), str(tmp_path)))
    assert run(engine, image, "a  b") == "a  b\n"


def test_addresses_are_filled_in_when_a_container_starts(engine: DockerEngine, code: Path) -> None:
    image = image_of(python(engine, code, xm.ModuleName("show")))
    peers = {"XMCLOUD_PEERS": json.dumps({"ps": "10.0.0.1:2222"})}
    printed = run(engine, image, "--ps=%objectname(ps)% x", environment=peers)
    assert json.loads(printed)[0] == ["--ps=10.0.0.1:2222 x"]


def test_an_archive_is_loaded_once(
    engine: DockerEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "saved.tar"
    context = BytesIO(f'FROM {engine.base_image}\nENTRYPOINT ["echo", "saved"]'.encode())
    engine.client().images.build(fileobj=context, tag="saved-image", network_mode="host")
    with archive.open("wb") as file:
        for piece in engine.client().images.get("saved-image").save(named=True):
            file.write(piece)
    packageable = xm.container(Local.Spec(), str(archive))
    image = image_of(packageable)
    assert run(engine, image, "x") == "saved x\n"
    assert image_of(packageable) == image
    assert "already loaded" in capsys.readouterr().err


def test_what_is_no_image_archive_is_refused(engine: DockerEngine, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="image_path"):
        image_of(xm.container(Local.Spec(), str(tmp_path / "missing.tar")))


def test_an_image_built_here_is_pushed_for_the_cloud(
    engine: DockerEngine, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flags, "build_image_locally", lambda: True)
    spec = xm.PythonContainer(xm.ModuleName("show"), str(code), engine.base_image)
    tagged = Vertex.Spec(push_image_tag=f"{engine.registry}/mine:v1")
    image = image_of(xm.Packageable(spec, tagged))
    assert image.startswith(f"{engine.registry}/mine@sha256:")
    with pytest.raises(InvalidInput, match="XMCLOUD_REGISTRY"):
        image_of(xm.Packageable(spec, Kubernetes.Spec()))
    monkeypatch.setenv("XMCLOUD_REGISTRY", f"{engine.registry}/team/")
    image = image_of(xm.Packageable(spec, Kubernetes.Spec()))
    assert image.startswith(f"{engine.registry}/team/trainer@sha256:")
    assert shown(engine, image, "x")[0] == ["x"]


def test_an_archive_of_nothing_is_refused(engine: DockerEngine, tmp_path: Path) -> None:
    archive = tmp_path / "empty.tar"
    with tarfile.open(archive, "w"):
        pass
    with pytest.raises(EngineRefused, match=r"empty\.tar"):
        image_of(xm.container(Local.Spec(), str(archive)))


def test_a_build_ends_with_its_engine(engine: DockerEngine, code: Path) -> None:
    forever = ["RUN while true; do echo again; sleep 0.05; done"]
    spec = xm.PythonContainer(xm.ModuleName("show"), str(code), engine.base_image, forever)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if "RUN while" in text:
            local.close()

    local = LocalEngine(DockerClient(engine.host), say, now=count().__next__)
    with python_context(spec) as context, pytest.raises(BuildFailed, match="interrupted"):
        local.build("forever", context)
    assert said[-1].startswith("image forever: failed")
