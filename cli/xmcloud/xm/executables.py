"""What can be packaged: executable specs, and the executable that packaging gives."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xmcloud.xm.arguments import SequentialArgs
from xmcloud.xm.environment import Secret
from xmcloud.xm.launch_folder import resolve_path_relative_to_launcher
from xmcloud.xm.shell_commands import with_arguments


class ExecutableSpec(ABC):
    """What to package, whatever it will run on."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name for people, made of letters, digits and underscores."""


@dataclass(frozen=True)
class Executable:
    """What packaging gives, ready to run; carries its packageable's arguments and environment."""

    name: str
    args: SequentialArgs = field(default_factory=SequentialArgs, kw_only=True)
    env_vars: Mapping[str, str | Secret] = field(default_factory=dict, kw_only=True)


class BinaryDependency:
    """Data that a binary needs beside itself."""


class ModuleName(NamedTuple):
    """Runs `python3 -m module_name` with the arguments."""

    module_name: str


class CommandList(NamedTuple):
    """Runs shell commands in order."""

    commands: list[str]

    def to_script(self) -> str:
        """The commands as lines of a shell script that passes its own arguments on exactly.

        Arguments go where a command says `$@`; if none does, to the last command.
        """
        return with_arguments(self.commands)


@dataclass(frozen=True, init=False)
class Container(ExecutableSpec):
    """An image that exists already, in a registry or on this machine."""

    image_path: str

    def __init__(self, image_path: str | None = None, *, path: str | None = None) -> None:
        """`path` is another name of `image_path`; raises TypeError unless one is given."""
        if (image_path is None) == (path is None):
            raise TypeError("a container needs one of image_path and path")
        image = image_path if path is None else path
        object.__setattr__(self, "image_path", _not_empty("image_path", image))

    @property
    def name(self) -> str:
        return _name_of(self.image_path)


@dataclass(frozen=True)
class Binary(ExecutableSpec):
    """A program on this machine; a relative path belongs to the working directory."""

    path: str
    dependencies: Collection[BinaryDependency] = field(default_factory=list)

    def __post_init__(self) -> None:
        _not_empty("path", self.path)

    @property
    def name(self) -> str:
        return _name_of(self.absolute_path)

    @property
    def absolute_path(self) -> str:
        return os.path.abspath(self.path)

    @property
    def bazel_label(self) -> str | None:
        """The path if it is a Bazel label (`//package:target`) rather than a file."""
        return self.path if self.path.startswith("//") else None


class _BazelTarget(ExecutableSpec):
    label: str
    bazel_args: Sequence[str]

    def __post_init__(self) -> None:
        _not_empty("label", self.label)
        _texts(self, "bazel_args")

    @property
    def name(self) -> str:
        return _name_of(self.label)


@dataclass(frozen=True)
class BazelBinary(_BazelTarget):
    """A target that Bazel builds to a program."""

    label: str
    dependencies: Collection[BinaryDependency] = field(default_factory=list)
    bazel_args: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True)
class BazelContainer(_BazelTarget):
    """A target that Bazel builds to an image archive (`.tar`)."""

    label: str
    bazel_args: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True)
class PythonContainer(ExecutableSpec):
    """A folder of Python code and how to start it; the path belongs to the launch script's folder.

    With `docker_instructions` the folder is only copied where they say so.
    """

    entrypoint: ModuleName | CommandList
    path: str = "."
    base_image: str | None = None
    docker_instructions: Sequence[str] | None = None
    use_deep_module: bool = False

    def __post_init__(self) -> None:
        _check_entrypoint(self.entrypoint)
        if self.docker_instructions is not None:
            _texts(self, "docker_instructions")
        object.__setattr__(self, "path", resolve_path_relative_to_launcher(self.path))

    @property
    def name(self) -> str:
        return _name_of(self.path)


@dataclass(frozen=True)
class Dockerfile(ExecutableSpec):
    """An image to build; both paths belong to the launch script's folder.

    `path` is the build's context; `dockerfile` is `path`/Dockerfile unless given.
    """

    path: str = "."
    dockerfile: str = ""

    def __init__(self, path: str = ".", dockerfile: str | None = None) -> None:
        context = resolve_path_relative_to_launcher(path)
        file = os.path.join(context, "Dockerfile")
        if dockerfile is not None:
            file = resolve_path_relative_to_launcher(dockerfile)
        object.__setattr__(self, "path", context)
        object.__setattr__(self, "dockerfile", file)

    @property
    def name(self) -> str:
        return _name_of(self.path)


def _name_of(path: str) -> str:
    """The last part of a path or label, as letters, digits and underscores."""
    return re.sub(r"\W", "_", os.path.basename(path.rstrip("/")))


def _not_empty(field_name: str, value: str | None) -> str:
    if not value:
        raise ValueError(f"{field_name} is empty; say what to run")
    return value


def _check_entrypoint(entrypoint: Any) -> None:
    match entrypoint:
        case ModuleName(str(module)):
            _not_empty("module_name", module)
        case CommandList([*commands]) if commands:
            pass
        case ModuleName() | CommandList():
            raise ValueError(f"entrypoint is {entrypoint!r}; commands are a list with at least one")
        case _:
            raise TypeError(
                f"entrypoint is {entrypoint!r}; give xm.ModuleName(..) or xm.CommandList([..])"
            )


def _texts(spec: ExecutableSpec, field_name: str) -> None:
    """Copy a list of strings, so that later changes to the script's own list do not count."""
    value = getattr(spec, field_name)
    if isinstance(value, str):
        raise ValueError(f"{field_name} is the bare string {value!r}; write [{value!r}]")
    object.__setattr__(spec, field_name, list(value))
