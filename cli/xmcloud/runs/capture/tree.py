"""The working tree as a patch against HEAD, made in an index and an object store of its own."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from xmcloud.runs.capture.git import Git
from xmcloud.runs.capture.limits import fitting
from xmcloud.xm_cloud.archives.sizes import shown

_PATCH = [
    "--patch",
    "--cached",
    "--binary",
    "--full-index",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--unified=3",
    "--ignore-submodules=all",
]
_LONG_AGO = 1
"""The time of an index that git trusts in nothing: it compares the content of all files."""

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_SKIPPED = "--ignore-submodules=all"
_NO_BYTECODE = "--exclude=__pycache__/"
"""What Python makes of the code when it first runs, where nobody has it ignored."""


@dataclass(slots=True)
class Changes:
    """The patch, b'' for a clean tree, and what it leaves out, for people."""

    patch: bytes
    left_out: list[str] = field(default_factory=list)


def changes(root: Path, file_limit: int) -> Changes:
    """All that differs from HEAD below `root`, staged or not.

    Neither the index nor the objects of the repository are touched. Raises `GitFailed`.
    """
    with _scratch(root) as git:
        git.line("update-index", "-q", "--refresh")
        changed = git.parts("diff-files", "-z", "--name-only", _SKIPPED)
        untracked = git.parts("ls-files", "-z", "--others", "--exclude-standard", _NO_BYTECODE)
        nested = [path for path in untracked if path.endswith("/")]
        paths = [path for path in dict.fromkeys([*changed, *untracked]) if path not in nested]
        taken, left_out = fitting(root, paths, file_limit)
        left_out += [f"{path} (a repository of its own)" for path in nested]
        _update(git, taken)
        left_out += _large_in_index(git, root, file_limit)
        patch = git("diff-index", *_PATCH, "HEAD")
    return Changes(patch, left_out)


def additions(root: Path, files: Mapping[str, bytes]) -> bytes:
    """A patch that adds these files, to go behind that of the changes. Raises `GitFailed`."""
    if not files:
        return b""
    with _objects(root) as (git, folder):
        for number, content in enumerate(files.values()):
            Path(folder, str(number)).write_bytes(content)
        listed = "".join(f"{folder}/{number}\n" for number in range(len(files)))
        said = git("hash-object", "-w", "--no-filters", "--stdin-paths", given=listed.encode())
        entries = zip(os.fsdecode(said).split(), files, strict=True)
        given = b"".join(os.fsencode(f"100644 {digest}\t{path}\0") for digest, path in entries)
        git("update-index", "-z", "--add", "--index-info", given=given)
        return git("diff-index", *_PATCH, _EMPTY_TREE)


@contextmanager
def _objects(root: Path) -> Iterator[tuple[Git, Path]]:
    """Git with an index, empty yet, and new objects in a folder that is thrown away."""
    objects = Git(root).line("rev-parse", "--path-format=absolute", "--git-path", "objects")
    with tempfile.TemporaryDirectory(prefix="xmcloud-") as folder:
        store = Path(folder, "objects")
        store.mkdir()
        variables = {
            "GIT_INDEX_FILE": f"{folder}/index",
            "GIT_OBJECT_DIRECTORY": str(store),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(objects),
        }
        yield Git(root, variables), Path(folder)


@contextmanager
def _scratch(root: Path) -> Iterator[Git]:
    """The same with an index that begins as the repository's."""
    path = Path(Git(root).line("rev-parse", "--path-format=absolute", "--git-path", "index"))
    with _objects(root) as (git, folder):
        if not path.is_file():
            git("read-tree", "HEAD")
        else:
            # With its time: what changed in the moment it was written is compared by content.
            shutil.copy2(path, folder / "index")
            if _converts(root):
                os.utime(folder / "index", (_LONG_AGO, _LONG_AGO))
        yield git


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _converts(root: Path) -> bool:
    """Whether checked out files differ from what is committed without git calling them changed."""
    own = {"GIT_CONFIG_COUNT": "0"}
    return Git(root, own).line("config", "--get", "core.autocrlf") in ("true", "input")


def _update(git: Git, paths: Sequence[str]) -> None:
    listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
    git("update-index", "-z", "--add", "--remove", "--replace", "--stdin", given=listed)


def _large_in_index(git: Git, root: Path, limit: int) -> list[str]:
    """Takes out of the index what was staged and is too large; names it."""
    staged = git.parts(
        "diff-index", "-z", "--cached", "--name-only", "--diff-filter=AM", _SKIPPED, "HEAD"
    )
    large: list[str] = []
    for path in staged:
        if (size := _size(root / path)) > limit:
            large.append(f"{path} ({shown(size)})")
            git("reset", "-q", "HEAD", "--", f":(top,literal){path}")
    return large


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
