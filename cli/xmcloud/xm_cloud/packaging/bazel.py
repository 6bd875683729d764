"""Builds with the `bazel` command what a launch script names by label."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from xmcloud import xm
from xmcloud.core.errors import InvalidInput, XmcloudError
from xmcloud.xm_cloud.packaging.bazel_events import Report, read_events
from xmcloud.xm_cloud.packaging.bazel_targets import BazelOutputs, BazelTarget

WORKSPACE_VARIABLE = "BUILD_WORKSPACE_DIRECTORY"
"""Where `bazel run` tells a program the workspace that it was started from."""

_MARKERS = ("MODULE.bazel", "WORKSPACE.bazel", "WORKSPACE")
_LAST_LINES = 20
_INTERRUPTED = 8

_OWN_ARGS = (
    "--nobuild_event_json_file_path_conversion",
    "--build_runfile_links",
    "--color=no",
    "--curses=no",
)


class NoWorkspace(XmcloudError):
    """The launch script lies in no Bazel workspace."""

    slug, title, status = "no-bazel-workspace", "No Bazel workspace", 422

    def __init__(self, start: Path) -> None:
        super().__init__(
            f"{start} lies in no Bazel workspace: no folder above it holds a {_MARKERS[0]} or "
            f"{_MARKERS[2]} file.",
            f"Move the launch script into the workspace, or set {WORKSPACE_VARIABLE} to its path.",
        )


class BazelMissing(XmcloudError):
    """There is no program to build with."""

    slug, title, status = "bazel-missing", "Bazel is not installed", 422

    def __init__(self) -> None:
        super().__init__(
            "Neither bazel nor bazelisk is on the PATH.",
            "Install Bazelisk, which fetches the workspace's version of Bazel, or Debian's "
            "bazel-bootstrap.",
        )


class BazelFailed(XmcloudError):
    """A build ended badly; `lines` are the last that Bazel printed."""

    slug, title, status = "bazel-failed", "The build failed", 422

    def __init__(self, labels: Sequence[str], exit_code: int, lines: Sequence[str]) -> None:
        super().__init__(
            f"bazel build of {', '.join(labels)} ended with exit code {exit_code}.",
            "\n".join(["Correct what it printed last:", *(f"  {line}" for line in lines)]),
        )
        self.labels, self.exit_code, self.lines = tuple(labels), exit_code, tuple(lines)


class OutputsElsewhere(XmcloudError):
    """A remote cache holds what was built, and Bazel was told not to fetch it."""

    slug, title, status = "outputs-elsewhere", "The outputs are not on this machine", 422

    def __init__(self, label: str, file: Path) -> None:
        super().__init__(
            f"{label} was built, but Bazel left {file.name} in the remote cache.",
            "Add '--remote_download_outputs=toplevel' ('all' before Bazel 7) to bazel_args.",
        )


def find_workspace(start: Path) -> Path:
    """The workspace that `bazel run` names, or else the one around `start`.

    Raises NoWorkspace, and InvalidInput when the environment names what is none.
    """
    if named := os.environ.get(WORKSPACE_VARIABLE):
        if not _is_workspace(Path(named)):
            raise InvalidInput(WORKSPACE_VARIABLE, named, "the folder of a Bazel workspace")
        return Path(named)
    for folder in (start, *start.parents):
        if _is_workspace(folder):
            return folder
    raise NoWorkspace(start)


def build(
    targets: Iterable[BazelTarget], say: Callable[[str], object]
) -> Iterator[tuple[BazelTarget, BazelOutputs]]:
    """Build targets of the launch script's workspace, those with the same options together.

    Take what you need of outputs before you go on: the next options may write to the same files.
    `say` gets each line as Bazel prints it. Raises BazelFailed, BazelMissing, OutputsElsewhere and
    what `find_workspace` does; KeyboardInterrupt, once Bazel has cancelled the build, when somebody
    interrupts it.
    """
    workspace = find_workspace(Path(xm.resolve_path_relative_to_launcher(".")))
    together: dict[tuple[tuple[str, ...], str], list[BazelTarget]] = {}
    for target in dict.fromkeys(targets):
        together.setdefault((target.bazel_args, target.repository), []).append(target)
    for (args, _), some in together.items():
        report = _build_together(workspace, args, some, say)
        for target in some:
            yield target, _outputs(target, report)


def _build_together(
    workspace: Path,
    args: Sequence[str],
    targets: Sequence[BazelTarget],
    say: Callable[[str], object],
) -> Report:
    labels = [target.label for target in targets]
    with tempfile.TemporaryDirectory(prefix="xmcloud-bazel-") as folder:
        events = Path(folder, "events.json")
        command = [_program(), "build", *args, *_OWN_ARGS, f"--build_event_json_file={events}"]
        exit_code, lines = _run([*command, "--", *labels], workspace, say)
        report = read_events(events)
    if exit_code == _INTERRUPTED:
        raise KeyboardInterrupt
    if exit_code != 0:
        raise BazelFailed(_failed(targets, report) or labels, exit_code, lines)
    return report


def _outputs(target: BazelTarget, report: Report) -> BazelOutputs:
    files = report.outputs.get(target.path, ())
    for file in files:
        if not file.exists():
            raise OutputsElsewhere(target.label, file)
    return BazelOutputs(target.label, files)


def _run(
    command: Sequence[str], workspace: Path, say: Callable[[str], object]
) -> tuple[int, Sequence[str]]:
    """The exit code and the last lines. Bazel shares our process group: Ctrl-C reaches both."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    with subprocess.Popen(
        command,
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as bazel:
        assert bazel.stdout is not None
        try:
            for line in filter(None, map(str.rstrip, bazel.stdout)):
                last.append(line)
                say(line)
        except BaseException:
            bazel.send_signal(signal.SIGINT)
            bazel.communicate()
            raise
    return bazel.returncode, last


def _failed(targets: Sequence[BazelTarget], report: Report) -> list[str]:
    return [target.label for target in targets if target.path in report.failed]


def _program() -> str:
    program = shutil.which("bazel") or shutil.which("bazelisk")
    if program is None:
        raise BazelMissing
    return program


def _is_workspace(folder: Path) -> bool:
    return any((folder / marker).is_file() for marker in _MARKERS)
