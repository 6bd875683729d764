"""`xmcloud build job`: an image does what the job does."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from tarfile import TarInfo
from tarfile import open as open_tar

import pytest

from tests.functions.real_workers import Plane, new_job, opened_plane
from tests.functions.xm_cloud.server import TOKEN
from tests.support.engine import DockerEngine
from xmcloud.core.models import Job
from xmcloud.core.specs import Argument, Command, GitSource, PythonSource

pytestmark = pytest.mark.docker

SHOW = """\
import json, os, sys
import six, helper
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ["MINE"], helper.NAME]))
"""
HARD = ["two words", "'\"`", "$HOME $(id) *", "ü→🙂", "\\", "new\nline"]
MINE = "a \"b\" 'c' $HOME \\ ü"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with opened_plane(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


def built(
    plane: Plane, engine: DockerEngine, job: Job, *options: str
) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "xmcloud.cli", "build", "job", job.id, *options]
    variables = {
        **engine.environment,
        "XMCLOUD_URL": plane.url,
        "XMCLOUD_TOKEN": TOKEN,
        "XMCLOUD_HOME": str(plane.folder / "home"),
        "XMCLOUD_CACHE": str(plane.folder / "cache"),
    }
    environment = {**os.environ, **variables}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def image_of(plane: Plane, engine: DockerEngine, job: Job, *options: str) -> str:
    done = built(plane, engine, job, "--base", engine.base_image, *options)
    assert done.returncode == 0, done.stderr
    assert f"docker run --rm {done.stdout.strip()}" in done.stderr
    return done.stdout.strip()


def run(engine: DockerEngine, image: str) -> str:
    said = engine.client().containers.run(image, network_mode="host", remove=True)
    assert isinstance(said, bytes)
    return said.decode()


def archive(files: dict[str, str]) -> bytes:
    packed = BytesIO()
    with open_tar(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            member = TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, BytesIO(text.encode()))
    return packed.getvalue()


def launched(plane: Plane, executable: PythonSource | GitSource | Command) -> Job:
    arguments = [Argument(value=value) for value in HARD]
    arguments += [Argument(name="lr", value=0.1), Argument(name="fast", value=True)]
    (job,) = plane.launch(
        new_job(
            "train",
            executable,
            queue=None,
            arguments=tuple(arguments),
            environment={"MINE": MINE},
        )
    )
    return job


def test_of_an_archive_with_its_requirements(plane: Plane, docker_engine: DockerEngine) -> None:
    files = {"app/show.py": SHOW, "app/helper.py": "NAME = 'packed'", "requirements.txt": "six\n"}
    source = PythonSource(
        archive=plane.blob(archive(files)), directory="app", entrypoint=("python3", "show.py")
    )
    job = launched(plane, source)
    image = image_of(plane, docker_engine, job)
    argv, folder, mine, name = json.loads(run(docker_engine, image))
    assert argv == [*HARD, "--lr=0.1", "--fast"]
    assert (folder, mine, name) == ("/code/app", MINE, "packed")
    again = built(plane, docker_engine, job, "--base", docker_engine.base_image, "--tag", "mine:1")
    assert "already built" in again.stderr
    assert again.stdout == "mine:1\n"


def test_of_a_commit_with_what_was_not_committed(
    plane: Plane, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    def git(*arguments: str) -> bytes:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        argv = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(argv, check=True, capture_output=True).stdout

    git("init", "--quiet")
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "helper.py").write_text("NAME = 'committed'\n")
    (tmp_path / ".gitignore").write_text("kept.txt\n")
    (tmp_path / "kept.txt").write_text("tracked, though ignored")
    git("add", "--force", ".")
    git("commit", "--quiet", "-m", "first")
    commit = git("rev-parse", "HEAD").decode().strip()
    (tmp_path / "helper.py").write_text("NAME = open('kept.txt').read()\n")
    diff = git("diff", "--binary", "--src-prefix=a/", "--dst-prefix=b/", "HEAD")
    source = GitSource(
        repository=f"file://{tmp_path}",
        commit=commit,
        diff=plane.blob(diff),
        entrypoint=("python3", "show.py"),
        requirements="six\n",
    )
    reference = f"{docker_engine.registry}/group/train:1"
    image = image_of(plane, docker_engine, launched(plane, source), "--tag", reference, "--push")
    assert image.startswith(f"{docker_engine.registry}/group/train@sha256:")
    assert json.loads(run(docker_engine, image))[1:] == ["/code", MINE, "tracked, though ignored"]


def test_other_jobs_have_no_code(plane: Plane, docker_engine: DockerEngine) -> None:
    done = built(plane, docker_engine, launched(plane, Command(command=("true",))))
    assert done.returncode != 0
    assert "a job of Python code or of a git revision" in done.stderr


def test_a_push_goes_somewhere(plane: Plane, docker_engine: DockerEngine) -> None:
    done = built(plane, docker_engine, launched(plane, Command(command=("true",))), "--push")
    assert "--tag HOST/PATH:VERSION" in done.stderr


def test_a_step_that_fails_is_shown(plane: Plane, docker_engine: DockerEngine) -> None:
    source = PythonSource(
        archive=plane.blob(archive({"a.py": ""})),
        entrypoint=("python3", "a.py"),
        requirements="./not-there\n",
    )
    done = built(plane, docker_engine, launched(plane, source), "--base", docker_engine.base_image)
    assert done.returncode != 0
    assert "not-there" in done.stderr
    assert "pip install" in done.stderr
