"""Packageables and the short forms that make them."""

from dataclasses import dataclass
from typing import Any

import pytest

from xmcloud import xm


@dataclass(frozen=True)
class Spec(xm.ExecutorSpec):
    tag: str = ""


MODULE = xm.ModuleName("m")
COMMANDS = xm.CommandList(["ls"])


@pytest.mark.parametrize(
    ("factory", "fields", "spec"),
    [
        (xm.container, {"image_path": "i"}, xm.Container("i")),
        (xm.container, {"path": "i"}, xm.Container("i")),
        (xm.binary, {"path": "/a"}, xm.Binary("/a")),
        (xm.binary, {"path": "//a:b"}, xm.BazelBinary("//a:b")),
        (
            xm.bazel_binary,
            {"label": "//a:b", "bazel_args": ["-c", "opt"]},
            xm.BazelBinary("//a:b", bazel_args=["-c", "opt"]),
        ),
        (
            xm.bazel_container,
            {"label": "//a:b", "bazel_args": ("-c",)},
            xm.BazelContainer("//a:b", ["-c"]),
        ),
        (xm.python_container, {"entrypoint": MODULE}, xm.PythonContainer(MODULE)),
        (
            xm.python_container,
            {
                "entrypoint": COMMANDS,
                "path": "/p",
                "base_image": "b",
                "docker_instructions": ["RUN a"],
                "use_deep_module": True,
            },
            xm.PythonContainer(COMMANDS, "/p", "b", ["RUN a"], True),
        ),
        (
            xm.dockerfile_container,
            {"path": "/p", "dockerfile": "/d"},
            xm.Dockerfile("/p", "/d"),
        ),
        (xm.dockerfile_container, {}, xm.Dockerfile()),
    ],
)
def test_a_short_form_makes_the_packageable(
    factory: Any, fields: dict[str, Any], spec: xm.ExecutableSpec
) -> None:
    packageable = factory(executor_spec=Spec("t"), args={"k": 1}, env_vars={"A": 1}, **fields)
    assert packageable == xm.Packageable(
        executable_spec=spec, executor_spec=Spec("t"), args={"k": 1}, env_vars={"A": 1}
    )
    assert packageable.executable_spec == spec


def test_the_executor_spec_comes_first_and_the_fields_follow() -> None:
    assert xm.container(Spec(), "i") == xm.Packageable(xm.Container("i"), Spec())
    assert xm.binary(Spec(), "/a", ()) == xm.Packageable(xm.Binary("/a"), Spec())
    assert xm.dockerfile_container(Spec(), "/p", "/d").executable_spec == xm.Dockerfile("/p", "/d")
    bazel_binary = xm.bazel_binary(Spec(), "//a:b", (), ["-c"])
    assert bazel_binary.executable_spec == xm.BazelBinary("//a:b", [], ["-c"])
    bazel_container = xm.bazel_container(Spec(), "//a:b", ["-c"])
    assert bazel_container.executable_spec == xm.BazelContainer("//a:b", ["-c"])
    python = xm.python_container(Spec(), MODULE, "/p", "b", ["RUN a"], True)
    assert python.executable_spec == xm.PythonContainer(MODULE, "/p", "b", ["RUN a"], True)


def test_dependencies_are_kept() -> None:
    dependency = xm.BinaryDependency()
    for packageable in (
        xm.binary(Spec(), "/a", [dependency]),
        xm.binary(Spec(), "//a:b", [dependency]),
        xm.bazel_binary(Spec(), "//a:b", [dependency]),
    ):
        spec = packageable.executable_spec
        assert isinstance(spec, xm.Binary | xm.BazelBinary)
        assert spec.dependencies == [dependency]


def test_a_binary_with_a_label_is_the_bazel_binary() -> None:
    packageable = xm.Packageable(xm.Binary(path="//path/to:label"), Spec())
    assert packageable.executable_spec == xm.BazelBinary(label="//path/to:label")


def test_arguments_and_environment_are_parsed() -> None:
    packageable = xm.container(Spec(), "i", args=["a", {"x": 1}], env_vars={"A_1": 2, "_b": True})
    assert packageable.args.to_argv() == ["a", "{'x': 1}"]
    assert packageable.env_vars == {"A_1": "2", "_b": "True"}


@pytest.mark.parametrize("name", ["1A", "A-B", "A B", "", "A\n", "é", "Aé", 1, None])
def test_an_invalid_name_in_the_environment_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=r"environment variable .* is no valid name"):
        xm.container(Spec(), "i", env_vars={name: "x"})


def test_a_value_no_process_can_receive_is_refused() -> None:
    with pytest.raises(ValueError, match="environment variable A holds a NUL"):
        xm.parse_env_vars({"A": "\0"})
