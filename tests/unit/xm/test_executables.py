"""Executable specs: their paths, names and what they refuse."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from xmcloud import xm


@pytest.fixture
def script_folder(tmp_path: Path) -> Iterator[Path]:
    with xm.launch_script_folder(tmp_path):
        yield tmp_path


def test_paths_of_projects_belong_to_the_launch_script(script_folder: Path) -> None:
    module = xm.ModuleName("train")
    assert xm.PythonContainer(module).path == str(script_folder)
    assert xm.PythonContainer(module, path="./a/../b/").path == str(script_folder / "b")
    assert xm.PythonContainer(module, path="/code").path == "/code"


def test_paths_of_dockerfiles_belong_to_the_launch_script(script_folder: Path) -> None:
    default = xm.Dockerfile()
    assert (default.path, default.dockerfile) == (
        str(script_folder),
        str(script_folder / "Dockerfile"),
    )
    assert xm.Dockerfile("a").dockerfile == str(script_folder / "a" / "Dockerfile")
    assert xm.Dockerfile("a", "b/File").dockerfile == str(script_folder / "b" / "File")
    assert xm.Dockerfile("a", "/b/File").dockerfile == "/b/File"


def test_a_binary_belongs_to_the_working_directory(
    script_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = xm.Binary("bin/a.out")
    monkeypatch.chdir("/")
    assert spec.path == "bin/a.out"
    assert spec.absolute_path == "/bin/a.out"


def test_launch_folders_nest_and_end(script_folder: Path) -> None:
    with xm.launch_script_folder("/inner"):
        assert xm.resolve_path_relative_to_launcher("x") == "/inner/x"
    assert xm.resolve_path_relative_to_launcher("x") == str(script_folder / "x")


def test_a_script_run_by_python_is_its_own_launch_script(tmp_path: Path) -> None:
    script = tmp_path / "launch.py"
    script.write_text("from xmcloud import xm\nprint(xm.Dockerfile('code').path)\n")
    assert run_python(str(script), cwd="/") == str(tmp_path / "code")


def test_without_a_script_paths_belong_to_the_working_directory(tmp_path: Path) -> None:
    code = "from xmcloud import xm; print(xm.Dockerfile('code').path)"
    assert run_python("-c", code, cwd=tmp_path) == str(tmp_path / "code")


def run_python(*arguments: str, cwd: str | Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.strip()


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (xm.Container("registry/project/image:latest"), "image_latest"),
        (xm.Binary("/x/a-b.out"), "a_b_out"),
        (xm.Binary("/x/dir/"), "dir"),
        (xm.BazelBinary("//path/to:target"), "to_target"),
        (xm.BazelContainer("//path/to:image.tar"), "to_image_tar"),
        (xm.BazelContainer("//container/"), "container"),
        (xm.BazelBinary(":binary"), "_binary"),
        (xm.PythonContainer(xm.ModuleName("m"), path="/code/my-project"), "my_project"),
        (xm.Dockerfile("/code/my.project"), "my_project"),
    ],
)
def test_a_spec_is_named_after_what_it_runs(spec: xm.ExecutableSpec, name: str) -> None:
    assert spec.name == name


def test_a_container_takes_its_image_under_both_names() -> None:
    assert xm.Container(path="image") == xm.Container(image_path="image") == xm.Container("image")


@pytest.mark.parametrize("arguments", [{}, {"image_path": "a", "path": "b"}])
def test_a_container_takes_one_image(arguments: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="one of image_path and path"):
        xm.Container(**arguments)


def test_only_a_path_that_starts_with_two_slashes_is_a_label() -> None:
    assert xm.Binary("//path/to:label").bazel_label == "//path/to:label"
    assert xm.Binary("/path/to").bazel_label is None


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: xm.Container(""), "image_path"),
        (lambda: xm.Binary(""), "path"),
        (lambda: xm.BazelBinary(""), "label"),
        (lambda: xm.BazelContainer(""), "label is empty"),
        (lambda: xm.PythonContainer(xm.ModuleName("")), "module_name"),
        (lambda: xm.PythonContainer(xm.CommandList([])), "at least one"),
        (lambda: xm.PythonContainer(xm.CommandList("ls")), "commands are a list"),  # type: ignore[arg-type]
        (
            lambda: xm.PythonContainer(xm.ModuleName("m"), docker_instructions="RUN ls"),
            r"docker_instructions .* write \['RUN ls'\]",
        ),
        (lambda: xm.BazelBinary("//a:b", bazel_args="-c"), "bazel_args .* write"),
    ],
)
def test_specs_refuse_what_cannot_be_run(make: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        make()


def test_an_entrypoint_is_a_module_or_commands() -> None:
    with pytest.raises(TypeError, match="entrypoint is 'train'"):
        xm.PythonContainer("train")  # type: ignore[arg-type]


def test_a_spec_keeps_its_own_copy_of_lists() -> None:
    instructions = ["RUN a"]
    spec = xm.PythonContainer(xm.ModuleName("m"), docker_instructions=instructions)
    instructions.append("RUN b")
    assert spec.docker_instructions == ["RUN a"]


def test_an_executable_carries_the_arguments_of_its_packageable() -> None:
    bare = xm.Executable("name")
    assert (bare.name, bare.args.to_argv(), bare.env_vars) == ("name", [], {})
    assert xm.Executable("name", args=xm.merge_args(["a"])).args.to_argv() == ["a"]


ARGUMENTS = ["a b", "", "*", "'$x'"]


@pytest.mark.parametrize(
    ("commands", "received"),
    [
        pytest.param(["print first", "print second"], ["first", "second", *ARGUMENTS], id="last"),
        pytest.param(
            ["print first $@", "print last"], ["first", *ARGUMENTS, "last"], id="unquoted"
        ),
        pytest.param(['print x "$@"'], ["x", *ARGUMENTS], id="quoted"),
        pytest.param(["print x ${@}"], ["x", *ARGUMENTS], id="in braces"),
        pytest.param(["print '$@'"], ["$@", *ARGUMENTS], id="single quotes hide it"),
        pytest.param(['print "\\$@" \\$@'], ["$@", "$@", *ARGUMENTS], id="backslashes hide it"),
        pytest.param(['print "n=$*"'], ["n=a b  * '$x'"], id="all in one"),
    ],
)
def test_commands_receive_every_argument_whole(commands: list[str], received: list[str]) -> None:
    script = 'print() { printf "%s\\0" "$@"; }\n' + xm.CommandList(commands).to_script()
    output = subprocess.run(
        ["sh", "-c", script, "sh", *ARGUMENTS], stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    assert output.split("\0")[:-1] == received
