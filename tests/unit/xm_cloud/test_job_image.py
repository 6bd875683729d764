"""The Dockerfile of a job's code."""

import os
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from xmcloud.core.errors import InvalidInput
from xmcloud.core.specs import Argument
from xmcloud.xm_cloud.packaging.job_image import JobCode, Requirements, dockerfile, job_context

PIP = "RUN /opt/venv/bin/python -m pip install --no-cache-dir"


def lines(
    requirements: Requirements | None = None,
    arguments: tuple[Argument, ...] = (),
    environment: dict[str, str] | None = None,
    directory: str = ".",
    folder: Path = Path(),
) -> list[str]:
    return dockerfile(
        code(requirements, arguments, environment, directory, folder), "python:3.12-slim"
    ).splitlines()


def code(
    requirements: Requirements | None = None,
    arguments: tuple[Argument, ...] = (),
    environment: dict[str, str] | None = None,
    directory: str = ".",
    folder: Path = Path(),
) -> JobCode:
    return JobCode(
        folder,
        directory,
        ("python3", "train.py"),
        arguments,
        environment or {},
        requirements or Requirements({"requirements.txt": ""}),
        (PurePosixPath("src"),),
    )


def test_the_command_is_the_entrypoint_and_the_arguments_follow() -> None:
    arguments = (Argument(name="lr", value=0.1), Argument(value="$HOME"))
    made = lines(arguments=arguments, directory="a/../app")
    assert made[0] == "FROM python:3.12-slim"
    assert made[-3:] == [
        "WORKDIR /code/app",
        'ENTRYPOINT ["python3", "train.py"]',
        'CMD ["--lr=0.1", "$HOME"]',
    ]
    assert 'ENV PYTHONPATH="/code/src"' in made
    assert not any("pip" in line for line in made)


def test_a_shell_reads_what_is_for_it() -> None:
    *_, entrypoint, arguments = lines(arguments=(Argument(value="$HOME", shell=True),))
    assert entrypoint == 'ENTRYPOINT ["/bin/sh", "-c", "exec python3 train.py $HOME"]'
    assert arguments == "CMD []"


def test_constraints_hashes_and_repositories_count() -> None:
    wanted = Requirements(
        {"requirements.txt": "x @ git+https://e.x/x\n", "constraints.txt": "y<2\n"}, ["--no-deps"]
    )
    made = lines(wanted)
    files = "--requirement /opt/requirements/requirements.txt"
    files += " --constraint /opt/requirements/constraints.txt"
    assert f"{PIP} {files} --no-deps" in made
    assert "COPY .xmcloud/constraints.txt /opt/requirements/constraints.txt" in made
    assert made.index("COPY code/ /code/") > made.index(f"{PIP} {files} --no-deps")
    assert any("install -y --no-install-recommends git" in line for line in made)


def test_uv_installs_what_pip_cannot_read_and_goes() -> None:
    made = lines(Requirements({"pylock.toml": "x"}, ["--preview-features", "pylock"], "uv"))
    (step,) = (line for line in made if "pylock.toml" in line and line.startswith("RUN"))
    assert step == (
        f"{PIP} uv && /opt/venv/bin/uv pip install --no-cache --python /opt/venv"
        " --requirement /opt/requirements/pylock.toml --preview-features pylock"
        " && /opt/venv/bin/python -m pip uninstall -y uv"
    )


def test_variables_are_quoted_and_have_one_line() -> None:
    assert 'ENV MINE="a \\\\ \\"b\\" \\$HOME"' in lines(environment={"MINE": 'a \\ "b" $HOME'})
    with pytest.raises(InvalidInput, match="one line"):
        lines(environment={"MINE": "a\nb"})


def test_all_files_are_there_but_the_repositorys_own(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*")
    for folder in (".git", "inner/.git", "empty"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "inner" / ".git" / "config").touch()
    (tmp_path / "inner" / "run").write_text("#!/bin/sh")
    (tmp_path / "inner" / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("inner", target_is_directory=True)
    os.link(tmp_path / ".gitignore", tmp_path / "same")
    with (
        job_context(code(folder=tmp_path), "base") as context,
        tarfile.open(fileobj=context.file) as tar,
    ):
        found = {member.name: member for member in tar if member.name.startswith("code")}
    assert set(found) == {
        "code/.gitignore",
        "code/empty",
        "code/inner",
        "code/inner/run",
        "code/link",
        "code/same",
    }
    assert found["code/inner/run"].mode == 0o755
    assert found["code/link"].linkname == "inner"
