"""What a copy of a job has in place of what the original has."""

import os.path
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from xmcloud.core.errors import InvalidInput
from xmcloud.core.protocol import CloneExperiment
from xmcloud.core.requirements import with_packages
from xmcloud.core.specs import (
    Argument,
    Binary,
    Command,
    Executable,
    GitSource,
    Image,
    JobSpec,
    PythonSource,
)

_NO_CODE = "left out: no job of it is made of Python code, and only that has requirements"
NO_GIT = "left out: no job of it runs a revision of a git repository"
_NO_IMAGE = "left out: no job of it is one that an image could stand for"
_NO_LIST = (
    "left out: a job has no list of its own, and one package would replace what its code asks for;"
    " give the whole list as `requirements`"
)


def check(request: CloneExperiment, specs: Sequence[JobSpec]) -> None:
    """Raises `InvalidInput` for what fits none of the jobs."""
    _check_arguments(request.arguments, specs)
    executables = [spec.executable for spec in specs]
    code = [each for each in executables if isinstance(each, PythonSource | GitSource)]
    if request.commit is not None and not any(isinstance(each, GitSource) for each in code):
        raise InvalidInput("commit", request.commit, NO_GIT)
    if request.image is not None and all(isinstance(each, Binary) for each in executables):
        raise InvalidInput("image", request.image, _NO_IMAGE)
    if request.requirements is not None and not code:
        raise InvalidInput("requirements", request.requirements, _NO_CODE)
    if request.packages and not code:
        raise InvalidInput("packages", [*request.packages], _NO_CODE)
    bare = request.requirements is None and any(not each.requirements.strip() for each in code)
    if request.packages and bare:
        raise InvalidInput("packages", [*request.packages], _NO_LIST)


def _check_arguments(changes: Mapping[str, JsonValue], specs: Sequence[JobSpec]) -> None:
    known = dict.fromkeys(a.name for spec in specs for a in spec.arguments if a.name is not None)
    for name, value in changes.items():
        if name not in known:
            flags = ", ".join(known) or "none: its arguments are positional"
            raise InvalidInput("arguments", {name: value}, f"a flag of the job ({flags})")


def overridden(
    spec: JobSpec, request: CloneExperiment, carried: Mapping[tuple[str, str], str | None]
) -> JobSpec:
    """The definition with what fits it of the request.

    `carried` is, for a diff and a script, the diff that stays when the commit is another one.
    """
    executable = spec.executable
    if isinstance(executable, GitSource) and request.commit is not None:
        executable = _at_commit(executable, request.commit, carried)
    if request.image is not None:
        executable = _of_image(executable, request.image)
    if isinstance(executable, PythonSource | GitSource):
        given = executable.requirements if request.requirements is None else request.requirements
        if request.packages:
            given = with_packages(given, request.packages)
        executable = executable.evolve(requirements=given)
    return spec.evolve(
        executable=executable, arguments=_arguments(spec.arguments, request.arguments)
    )


def _of_image(executable: Executable, image: str) -> Executable:
    """Of Python code, the image has the code and starts it; a command is started in the image."""
    match executable:
        case Image():
            return executable.evolve(image=image, build=None)
        case PythonSource() | GitSource():
            return Image(image=image)
        case Command():
            return Image(image=image, command=executable.command)
        case Binary():
            return executable


def _arguments(
    arguments: Sequence[Argument], changes: Mapping[str, JsonValue]
) -> tuple[Argument, ...]:
    return tuple(
        Argument(name=each.name, value=changes[each.name])
        if each.name is not None and each.name in changes
        else each
        for each in arguments
    )


def _at_commit(
    source: GitSource, commit: str, carried: Mapping[tuple[str, str], str | None]
) -> GitSource:
    """The bundle stays only if the commit is the one that it brings."""
    diff = carried[source.diff, generated_script(source)] if source.diff else None
    if commit == source.commit:
        return source.evolve(diff=diff)
    return source.evolve(commit=commit, branch="", diff=diff, bundle=None)


def generated_script(source: GitSource) -> str:
    """The path of the script that was made of a notebook, which no commit has; else ''."""
    script = source.entrypoint[-1]
    return os.path.normpath(f"{source.directory}/{script}") if script.endswith(".ipynb.py") else ""
