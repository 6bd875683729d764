"""Reading pylock.toml."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xmcloud.worker.environments.local import import_root, read, table
from xmcloud.worker.environments.wanted import PyLock
from xmcloud.worker.setup import SetupFailed


def py_lock(path: Path, root: Path) -> PyLock:
    """Folders of the checkout are not installed but imported. Raises `SetupFailed`."""
    entries = table(path, root).get("packages", [])
    head, *blocks = re.split(r"(?m)^(?=\[\[packages\]\])", read(path, root))
    kept = [block for block in blocks if "directory" not in _only(block)]
    text = "".join([head, *kept])
    for entry in tomllib.loads(text).get("packages", []):
        if local := next(_paths(entry), None):
            raise SetupFailed(
                f"pylock.toml has {entry.get('name')!r} at the path {local!r}: environments are"
                " shared by jobs and have none of it. Have it at an index or a URL."
            )
    folders = [path.parent / x["directory"]["path"] for x in entries if "directory" in x]
    return PyLock(text, tuple(import_root(folder, root, "pylock.toml") for folder in folders))


def _only(block: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(block)["packages"][0]
    return found


def _paths(entry: dict[str, Any]) -> Iterator[str]:
    sources = [entry.get(kind, {}) for kind in ("directory", "archive", "sdist", "vcs")]
    for source in [*sources, *entry.get("wheels", [])]:
        if "path" in source and "url" not in source:
            yield source["path"]
