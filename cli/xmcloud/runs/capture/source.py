"""The code of a run as something that runs again elsewhere."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xmcloud.core.errors import InvalidInput, TooLarge
from xmcloud.core.specs import GitSource, PythonSource
from xmcloud.runs.capture import packages, repository, tree
from xmcloud.runs.capture.entry import Entry, entry, folder_of
from xmcloud.runs.capture.git import GitFailed
from xmcloud.runs.capture.limits import file_limit
from xmcloud.runs.capture.local_code import CARRIED, LocalCode, local_code, needed, python_path
from xmcloud.runs.facts import Facts
from xmcloud.xm_cloud.archives.sizes import shown
from xmcloud.xm_cloud.archives.uploads import BlobStore, upload, upload_folder


@dataclass(slots=True)
class Captured:
    """What runs, with which variables, and what people should know about it."""

    executable: GitSource | PythonSource
    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Code:
    """Where the code is, how it starts, and what it needs besides."""

    root: Path
    entry: Entry
    added: dict[str, bytes]
    requirements: str
    python: str
    environment: dict[str, str]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tree when the script began; `why` there is nothing of git."""

    root: Path
    found: repository.Checkout | None = None
    changes: tree.Changes | None = None
    bundle: bytes = b""
    submodules: Sequence[str] = ()
    why: str = ""


def snapshot(facts: Facts) -> Snapshot:
    """At once, before anybody edits what already runs."""
    folder = folder_of(facts)
    found = repository.find(folder)
    if found is None:
        return Snapshot(folder.resolve(), why="no git repository")
    root = found.root.resolve()
    if not found.url:
        return Snapshot(root, why="no git remote that others reach")
    try:
        changes = tree.changes(found.root, file_limit(os.environ))
        bundle, submodules = repository.unpushed(found), repository.submodules(found)
    except GitFailed as error:
        return Snapshot(root, why=str(error))
    return Snapshot(root, found, changes, bundle, submodules)


def capture(
    taken: Snapshot,
    facts: Facts,
    modules: Sequence[str],
    files: Mapping[str, str],
    blobs: BlobStore,
) -> Captured:
    """Uploads the code. Raises as uploads do, and for what cannot be archived."""
    code = _code(facts, taken.root, modules, files)
    if taken.found is None or taken.changes is None:
        return _of_folder(code, taken.why, files.values(), blobs)
    return _of_git(taken, taken.found, taken.changes, code, blobs)


def _code(facts: Facts, root: Path, modules: Sequence[str], files: Mapping[str, str]) -> _Code:
    root = root.resolve()
    started = entry(facts, root)
    used = packages.imported(modules, facts.path)
    working = root / started.directory
    anyway = working if facts.module or not facts.main else Path(working, facts.main).parent
    code = local_code(files, root, anyway.resolve())
    code.carried |= {
        name: path
        for package in used.local
        if not packages.is_editable(package)
        for name, path in packages.code_of(package)
    }
    code.carried = {
        name: path
        for name, path in code.carried.items()
        if needed(name, modules) and path.is_file()
    }
    added, notes = _read(code)
    return _Code(
        root,
        started,
        started.added | added,
        "".join(f"{line}\n" for line in used.requirements),
        facts.python.rpartition(".")[0],
        {"PYTHONPATH": where} if (where := python_path(code, root, working)) else {},
        notes,
    )


def _read(code: LocalCode) -> tuple[dict[str, bytes], list[str]]:
    limit = file_limit(os.environ)
    added: dict[str, bytes] = {}
    notes: list[str] = []
    for name, path in code.carried.items():
        if (size := path.stat().st_size) > limit:
            notes.append(f"not captured: {path} ({shown(size)})")
        else:
            added[f"{CARRIED}/{name}"] = path.read_bytes()
    return added, notes


def _of_git(
    taken: Snapshot,
    found: repository.Checkout,
    changes: tree.Changes,
    code: _Code,
    blobs: BlobStore,
) -> Captured:
    patch = changes.patch + tree.additions(taken.root, code.added)
    missing = [*changes.left_out, *(f"submodule {name}" for name in taken.submodules)]
    source = GitSource(
        repository=found.url,
        commit=found.commit,
        branch=found.branch,
        diff=upload(blobs, "The diff", patch) if patch else None,
        bundle=upload(blobs, "The unpushed commits", taken.bundle) if taken.bundle else None,
        **_shared(code),
    )
    notes = [*code.notes, *(f"not captured: {name}" for name in missing)]
    return Captured(source, code.environment, notes)


def _of_folder(code: _Code, why: str, imported: Iterable[str], blobs: BlobStore) -> Captured:
    note = f"{why}: {code.root.name} was archived"
    try:
        archive = upload_folder(blobs, code.root, extra=code.added)
    except (TooLarge, InvalidInput) as error:
        archive = _of_imported(code, imported, blobs)
        note = f"{why}: the script was archived, with what it imported and nothing else. {error}"
    source = PythonSource(archive=archive, **_shared(code))
    return Captured(source, code.environment, [*code.notes, note])


def _of_imported(code: _Code, imported: Iterable[str], blobs: BlobStore) -> str:
    """The digest of an archive that has these files alone, where they are below the root."""
    with tempfile.TemporaryDirectory(prefix="xmcloud-") as folder:
        for path in (Path(file).resolve() for file in imported):
            if path.is_relative_to(code.root):
                copy = Path(folder, path.relative_to(code.root))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
        return upload_folder(blobs, Path(folder), extra=code.added)


def _shared(code: _Code) -> dict[str, Any]:
    return {
        "directory": code.entry.directory,
        "entrypoint": code.entry.command,
        "requirements": code.requirements,
        "python": code.python,
    }
