"""Bazel's targets by their labels, and what was built of them."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xmcloud import xm
from xmcloud.core.errors import InvalidInput, XmcloudError
from xmcloud.xm_cloud.unsupported import Unsupported

_LABEL = re.compile(r"(?P<repository>(@@?[\w.~+-]*)?)//(?P<package>[^:]*)(:(?P<name>[^:]+))?")
_MANY = {"all", "all-targets", "*"}


class UnexpectedOutputs(XmcloudError):
    """A target builds something other than its kind of executable needs."""

    slug, title, status = "unexpected-outputs", "Not what was asked for", 422

    def __init__(self, label: str, files: Sequence[Path], expected: str) -> None:
        built = ", ".join(file.name for file in files) or "no file"
        super().__init__(f"{label} builds {built}.", f"It must build {expected}.")


@dataclass(frozen=True)
class BazelTarget:
    """One target, by its whole label (`//package:name`), and the options it is built with.

    Raises InvalidInput for what is no label, or may mean several targets.
    """

    label: str
    bazel_args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", _whole(self.label))
        if "--" in self.bazel_args:
            raise InvalidInput("bazel_args", "--", "options alone; each label is a target's own")

    @property
    def repository(self) -> str:
        return self.label.partition("//")[0]

    @property
    def path(self) -> str:
        """The label within its repository, which Bazel may call by another name than we do."""
        return "//" + self.label.partition("//")[2]


@dataclass(frozen=True)
class BazelOutputs:
    """The files that a target builds by default."""

    label: str
    files: tuple[Path, ...]

    def program(self) -> Path:
        """The one that runs, with its runfiles in a folder beside it. Raises UnexpectedOutputs."""
        found = [file for file in self.files if runfiles_of(file).is_dir()]
        if not found and len(self.files) == 1 and os.access(self.files[0], os.X_OK):
            found = list(self.files)
        name = self.label.rpartition(":")[2]
        if len(found) > 1:
            found = [file for file in found if file.name == Path(name).name]
        if len(found) != 1:
            raise UnexpectedOutputs(self.label, self.files, "one program, as a *_binary rule does")
        return found[0]

    def image(self) -> Path:
        """The archive of a container's image. Raises UnexpectedOutputs."""
        found = [file for file in self.files if file.suffix == ".tar"]
        if len(found) != 1:
            raise UnexpectedOutputs(self.label, self.files, "one image archive (.tar)")
        return found[0]


def runfiles_of(program: Path) -> Path:
    """Where Bazel puts what a program reads while it runs."""
    return program.with_name(f"{program.name}.runfiles")


def target_of(spec: xm.BazelBinary | xm.BazelContainer | xm.Binary) -> BazelTarget:
    """What a spec has built. Raises InvalidInput, and Unsupported for dependencies."""
    if isinstance(spec, xm.BazelContainer):
        return BazelTarget(spec.label, tuple(spec.bazel_args))
    label, args = (spec.path, ()) if isinstance(spec, xm.Binary) else (spec.label, spec.bazel_args)
    if spec.dependencies:
        raise Unsupported(
            f"dependencies of {label} were given.",
            "Name them as `data` of the target: Bazel's runfiles go where the program goes.",
        )
    return BazelTarget(label, tuple(args))


def _whole(label: str) -> str:
    match = _LABEL.fullmatch(label)
    if match is None or not (match["package"] or match["name"]):
        raise InvalidInput("label", label, "a whole label, such as //package:target")
    package = match["package"]
    name = match["name"] or package.rpartition("/")[2]
    if name in _MANY or "..." in package.split("/"):
        raise InvalidInput("label", label, "the label of one target, not a pattern of several")
    repository = "" if match["repository"] in ("@", "@@") else match["repository"]
    return f"{repository}//{package}:{name}"
