"""Reading poetry.lock, without Poetry."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xmcloud.worker.environments.local import import_root, table
from xmcloud.worker.environments.wanted import PoetryLock
from xmcloud.worker.setup import SetupFailed

_OLD = (
    "poetry.lock is of format {version}, which does not say what each package is for."
    " Run `poetry lock` with Poetry 2 (it keeps the versions) and commit what it writes."
)
Entry = Mapping[str, Any]


def poetry_lock(path: Path, root: Path) -> PoetryLock:
    """What `poetry install` would install, but for the project itself. Raises `SetupFailed`."""
    lock = table(path, root)
    version = str(lock.get("metadata", {}).get("lock-version", "1.0"))
    if not version.startswith("2.") or version == "2.0":
        raise SetupFailed(_OLD.format(version=version))
    project = path.parent / "pyproject.toml"
    settings = table(project, root).get("tool", {}).get("poetry", {}) if project.is_file() else {}
    optional = {name for name, x in settings.get("group", {}).items() if x.get("optional")}
    entries = [entry for entry in lock.get("package", ()) if not entry.get("optional")]
    lines = [line for entry in entries for line in _lines(entry, optional)]
    local = [path.parent / entry["source"]["url"] for entry in entries if _is_local(entry)]
    code = [path.parent, *local] if settings.get("package-mode", True) else local
    roots = tuple(import_root(folder, root, "poetry.lock") for folder in code)
    return PoetryLock("".join(f"{line}\n" for line in dict.fromkeys(lines)), roots)


def _is_local(entry: Entry) -> bool:
    return bool(entry.get("source", {}).get("type") == "directory")


def _lines(entry: Entry, optional: set[str]) -> Iterator[str]:
    """The requirement, once for each group of packages that is wanted and has its own marker."""
    groups = [name for name in entry.get("groups", ["main"]) if name not in optional]
    if not groups or _is_local(entry):
        return
    source = entry.get("source", {})
    if source.get("type") == "legacy":
        yield f"--extra-index-url {source['url']}"
    wanted, hashes = _requirement(entry, source), _hashes(entry)
    markers = entry.get("markers", "")
    if not isinstance(markers, str):
        each = [markers.get(group, "") for group in groups]
        markers = "" if "" in each else " or ".join(f"({marker})" for marker in dict.fromkeys(each))
    yield f"{wanted} ; {markers}{hashes}" if markers else f"{wanted}{hashes}"


def _requirement(entry: Entry, source: Entry) -> str:
    name = entry["name"]
    folder = f"#subdirectory={source['subdirectory']}" if "subdirectory" in source else ""
    match source.get("type"):
        case None | "legacy":
            return f"{name}=={entry['version']}"
        case "git":
            return f"{name} @ git+{source['url']}@{source['resolved_reference']}{folder}"
        case "url":
            return f"{name} @ {source['url']}{folder}"
        case kind:
            raise SetupFailed(
                f"poetry.lock has {name!r} from a {kind} ({source.get('url')}): environments are"
                " shared by jobs and have none of it. Have it at an index or in a repository."
            )


def _hashes(entry: Entry) -> str:
    return "".join(f" --hash={file['hash']}" for file in entry.get("files", ()))
