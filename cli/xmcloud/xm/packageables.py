"""An executable spec for one executor, and the short forms that make one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xmcloud.xm.arguments import SequentialArgs, UserArgs, merge_args
from xmcloud.xm.environment import Secret, UserEnv, parse_env_vars
from xmcloud.xm.executables import (
    BazelBinary,
    BazelContainer,
    Binary,
    BinaryDependency,
    CommandList,
    Container,
    Dockerfile,
    ExecutableSpec,
    ModuleName,
    PythonContainer,
)
from xmcloud.xm.executors import ExecutorSpec


@dataclass(frozen=True, init=False)
class Packageable:
    """What to package for which executor, with arguments and environment of every job from it.

    A `Binary` whose path is a Bazel label becomes the `BazelBinary` it means.
    """

    executable_spec: ExecutableSpec
    executor_spec: ExecutorSpec
    args: SequentialArgs
    env_vars: Mapping[str, str | Secret]

    def __init__(
        self,
        executable_spec: ExecutableSpec,
        executor_spec: ExecutorSpec,
        args: UserArgs = None,
        env_vars: UserEnv | None = None,
    ) -> None:
        object.__setattr__(self, "executable_spec", _meant(executable_spec))
        object.__setattr__(self, "executor_spec", executor_spec)
        object.__setattr__(self, "args", merge_args(args))
        object.__setattr__(self, "env_vars", parse_env_vars(env_vars))


def _meant(spec: ExecutableSpec) -> ExecutableSpec:
    if isinstance(spec, Binary) and spec.bazel_label:
        return BazelBinary(spec.bazel_label, spec.dependencies)
    return spec


def container(
    executor_spec: ExecutorSpec,
    image_path: str | None = None,
    *,
    path: str | None = None,
    args: UserArgs = None,
    env_vars: UserEnv | None = None,
) -> Packageable:
    spec = Container(image_path, path=path)
    return Packageable(spec, executor_spec, args, env_vars)


def binary(
    executor_spec: ExecutorSpec,
    path: str,
    dependencies: Collection[BinaryDependency] = (),
    *,
    args: UserArgs = None,
    env_vars: UserEnv | None = None,
) -> Packageable:
    return Packageable(Binary(path, list(dependencies)), executor_spec, args, env_vars)


def bazel_binary(
    executor_spec: ExecutorSpec,
    label: str,
    dependencies: Collection[BinaryDependency] = (),
    bazel_args: Sequence[str] = (),
    *,
    args: UserArgs = None,
    env_vars: UserEnv | None = None,
) -> Packageable:
    spec = BazelBinary(label, list(dependencies), bazel_args)
    return Packageable(spec, executor_spec, args, env_vars)


def bazel_container(
    executor_spec: ExecutorSpec,
    label: str,
    bazel_args: Sequence[str] = (),
    *,
    args: UserArgs = None,
    env_vars: UserEnv | None = None,
) -> Packageable:
    return Packageable(BazelContainer(label, bazel_args), executor_spec, args, env_vars)


def python_container(
    executor_spec: ExecutorSpec,
    entrypoint: ModuleName | CommandList,
    path: str = ".",
    base_image: str | None = None,
    docker_instructions: Sequence[str] | None = None,
    use_deep_module: bool = False,
    *,
    args: UserArgs = None,
    env_vars: UserEnv | None = None,
) -> Packageable:
    spec = PythonContainer(entrypoint, path, base_image, docker_instructions, use_deep_module)
    return Packageable(spec, executor_spec, args, env_vars)


def dockerfile_container(
    executor_spec: ExecutorSpec,
    path: str = ".",
    dockerfile: str | None = None,
    *,
    args: UserArgs = None,
    env_vars: UserEnv | None = None,
) -> Packageable:
    return Packageable(Dockerfile(path, dockerfile), executor_spec, args, env_vars)
