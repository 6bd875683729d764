import json
import sys
from pathlib import Path

import pytest

from xmcloud import xm
from xmcloud.core.errors import InvalidInput
from xmcloud.xm_cloud.packaging.dockerfile_parsing import Startup, instructions, startup
from xmcloud.xm_cloud.packaging.dockerfiles import python_dockerfile, wrapped_dockerfile
from xmcloud.xm_cloud.packaging.dockerignore import ignored_by

MODULE = xm.ModuleName("train")


def lines(spec: xm.PythonContainer, requirements: str | None = None) -> list[str]:
    return python_dockerfile(spec, requirements).splitlines()


def where(text: list[str], beginning: str) -> int:
    [found] = [number for number, line in enumerate(text) if line.startswith(beginning)]
    return found


def command(dockerfile: str) -> list[str]:
    """The command that the entrypoint starts, behind ours."""
    [line] = [line for line in dockerfile.splitlines() if line.startswith('ENTRYPOINT ["/bin/sh')]
    words: list[str] = json.loads(line.removeprefix("ENTRYPOINT "))
    assert "python3 -IS /.xmcloud/entrypoint.py" in words[2]
    return words[4:]


def test_requirements_come_before_the_code() -> None:
    text = lines(xm.PythonContainer(MODULE, "/src/trainer"), "numpy\n")
    copies = [line for line in text if line.startswith("COPY --chown=1000:root")]
    assert copies == [
        'COPY --chown=1000:root ["trainer/requirements.txt", "/trainer/requirements.txt"]',
        'COPY --chown=1000:root ["trainer/", "/trainer/"]',
    ]
    install = where(text, "RUN cd '/trainer' && PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install")
    assert text.index(copies[0]) < install < text.index(copies[1])
    assert text[0] == f"FROM python:3.{sys.version_info.minor}-slim"
    assert "WORKDIR /trainer" in text
    assert command("\n".join(text)) == ["python3", "-m", "train"]
    assert text[-1] == "CMD []"


@pytest.mark.parametrize(
    "requirement", ["-e .", "-r more.txt", "--constraint c.txt", "./wheel.whl", "a @ file:///x"]
)
def test_requirements_that_name_files_come_after_the_code(requirement: str) -> None:
    text = lines(xm.PythonContainer(MODULE, "/src/trainer"), f"numpy\n{requirement}\n")
    assert where(text, "COPY --chown") < where(text, "RUN cd ")


def test_git_is_there_for_requirements_that_need_it() -> None:
    spec = xm.PythonContainer(MODULE, "/src/trainer")
    assert any("install -y --no-install-recommends git" in x for x in lines(spec, "a @ git+x"))
    assert not any("apt-get" in line for line in lines(spec, "gitpython\n"))


def test_without_requirements_nothing_is_installed() -> None:
    assert not any("pip" in line for line in lines(xm.PythonContainer(MODULE, "/src/trainer")))


def test_a_deep_module_runs_above_its_folder() -> None:
    text = lines(xm.PythonContainer(MODULE, "/src/trainer", use_deep_module=True))
    assert 'COPY --chown=1000:root ["trainer/", "/workdir/trainer/"]' in text
    assert "WORKDIR /workdir" in text


def test_instructions_replace_the_steps() -> None:
    instructions = ["RUN one", "WORKDIR /two"]
    text = lines(xm.PythonContainer(MODULE, "/src/trainer", "base", instructions), "numpy")
    assert text[0] == "FROM base"
    assert text[2:4] == instructions
    assert not any("trainer" in line or "pip" in line for line in text)


def test_commands_are_a_script() -> None:
    text = python_dockerfile(xm.PythonContainer(xm.CommandList(["ls"]), "/src/trainer"), None)
    assert "COPY .xmcloud/commands.sh /.xmcloud/commands.sh\n" in text
    assert command(text) == ["bash", "/.xmcloud/commands.sh"]


@pytest.mark.parametrize("name", ["a$b", "x'y", "q*", "[z]"])
def test_a_folder_that_no_dockerfile_can_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="a folder whose name"):
        python_dockerfile(xm.PythonContainer(MODULE, f"/src/{name}"), None)


@pytest.mark.parametrize(
    ("text", "entrypoint", "cmd"),
    [
        ('FROM a\nENTRYPOINT ["x", "y z"]', ["x", "y z"], "[]"),
        ('from a\nentrypoint ["x"]\ncmd ["1"]', ["x"], '["1"]'),
        ('FROM a\nCMD ["1"]\nENTRYPOINT ["x"]\n', ["x"], '["1"]'),
        ("FROM a\nENTRYPOINT exec x $Y", ["/bin/sh", "-c", "exec x $Y"], "[]"),
        ("FROM a\nENTRYPOINT ['x']", ["/bin/sh", "-c", "['x']"], "[]"),
        ('FROM a\nSHELL ["bash", "-lc"]\nENTRYPOINT x', ["bash", "-lc", "x"], "[]"),
        ('FROM a\nENTRYPOINT ["x"]\nENTRYPOINT ["y"]\nCMD 1\nCMD 2', ["y"], "2"),
        ('FROM a\nENTRYPOINT \\\n\n# no\n  ["x", \\\n "y"]', ["x", "y"], "[]"),
        ('# escape=`\nFROM a\nENTRYPOINT `\n ["x"]', ["x"], "[]"),
        ('FROM a AS b\nENTRYPOINT ["x"]\nCMD ["1"]\nFROM B\nRUN y', ["x"], '["1"]'),
        ('FROM a AS b\nENTRYPOINT ["x"]\nCMD ["1"]\nFROM b\nENTRYPOINT ["y"]', ["y"], "[]"),
        ('FROM --platform=linux/amd64 a AS b\nENTRYPOINT ["x"]\nFROM b', ["x"], "[]"),
        ('FROM a\nRUN <<-EOF\nENTRYPOINT ["no"]\n\tEOF\nENTRYPOINT ["x"]', ["x"], "[]"),
    ],
)
def test_an_entrypoint_is_wrapped(text: str, entrypoint: list[str], cmd: str) -> None:
    wrapped = wrapped_dockerfile(text)
    assert wrapped.startswith(text.rstrip())
    assert command(wrapped) == entrypoint
    assert wrapped.splitlines()[-1] == f"CMD {cmd}"


@pytest.mark.parametrize(
    "text",
    [
        'FROM a\nCMD ["x"]',
        'FROM a\nENTRYPOINT ["x"]\nENTRYPOINT []',
        'FROM a AS b\nENTRYPOINT ["x"]\nFROM a',
        'FROM scratch\nENTRYPOINT ["/x"]',
        'FROM gcr.io/distroless/python3\nENTRYPOINT ["/x"]',
        "no Dockerfile at all",
    ],
)
def test_what_cannot_be_wrapped_stays(text: str) -> None:
    assert wrapped_dockerfile(text) == text


def test_instructions_are_joined() -> None:
    text = "# syntax=docker/dockerfile:1\n\nfrom a\nRUN one && \\\n  # two\n  three\n\nEXPOSE\t1"
    assert list(instructions(text)) == [
        ("FROM", "a"), ("RUN", "one &&   three"), ("EXPOSE", "1"),
    ]  # fmt: skip


def test_an_empty_dockerfile_starts_nothing() -> None:
    assert startup("") == Startup()


@pytest.mark.parametrize(
    ("patterns", "left_out", "kept"),
    [
        ("*.log", ["a.log"], ["a/b.log", "a.log.txt"]),
        ("**/*.log", ["a.log", "a/b/c.log"], ["log"]),
        ("a", ["a", "a/b", "a/b/c"], ["ab", "b/a"]),
        ("/a/\n", ["a", "a/b"], ["b/a"]),
        ("*\n!keep\n!keep/**", ["x", ".y"], ["keep", "keep/z"]),
        ("a\n!a/b\na/b/c", ["a", "a/x", "a/b/c"], ["a/b", "a/b/d"]),
        ("# a\n\n ?b", ["xb"], ["b", "# a"]),
        ("[a-c]x\n[^a]y", ["bx", "by"], ["dx", "ay"]),
        ("a**b", ["ab", "a/x/b"], ["ba"]),
        ("\\*", ["*"], ["x"]),
        ("./a/./b", ["a/b"], ["a"]),
    ],
)
def test_dockerignore(patterns: str, left_out: list[str], kept: list[str]) -> None:
    ignored = ignored_by(patterns)
    assert [path for path in [*left_out, *kept] if ignored(path)] == left_out


def test_a_broken_pattern_is_named() -> None:
    with pytest.raises(InvalidInput, match="z-a"):
        ignored_by("[z-a]")


def test_a_missing_dockerfile_is_named(tmp_path: Path) -> None:
    from xmcloud.xm_cloud.packaging.contexts import dockerfile_context

    with pytest.raises(InvalidInput, match="dockerfile"):
        dockerfile_context(xm.Dockerfile(str(tmp_path)))
