"""How the script was started, as a command that runs elsewhere."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from xmcloud.runs.capture.notebook import script_of
from xmcloud.runs.facts import Facts

_WITH_VALUE = ("-W", "-X")
_CALL = "import sys; from {module} import {name}; sys.exit({call}())"


@dataclass(frozen=True, slots=True)
class Entry:
    """`command` runs in `directory`, below the root; `added` are files that it needs besides."""

    command: tuple[str, ...]
    directory: str
    added: dict[str, bytes]


def folder_of(facts: Facts) -> Path:
    """Where the code is: the folder of the script, or the working directory."""
    place = facts.notebook or ("" if facts.module or _is_installed(facts) else facts.main)
    path = Path(facts.directory, place).resolve() if place else Path(facts.directory)
    return path.parent if place else path


def entry(facts: Facts, root: Path) -> Entry:
    """The command, for a tree of which `root` is the top."""
    working = Path(facts.directory).resolve()
    inside = working.is_relative_to(root)
    directory = str(working.relative_to(root)) if inside else "."
    start = root / directory
    flags = interpreter_flags(facts.original)
    if facts.notebook or facts.cells:
        name = f"{Path(facts.notebook or 'notebook.ipynb').name}.py"
        added = {os.path.normpath(os.path.join(directory, name)): script_of(facts)}
        return Entry(("python", *flags, name), directory, added)
    if facts.module:
        return Entry(("python", *flags, "-m", facts.module), directory, {})
    if "-c" in facts.original[1:] and not facts.main:
        code = facts.original[facts.original.index("-c") + 1]
        return Entry(("python", *flags, "-c", code), directory, {})
    if _is_installed(facts) and (called := _console_script(Path(facts.main).name)):
        return Entry(("python", *flags, "-c", called), directory, {})
    script = Path(facts.directory, facts.main).resolve()
    return Entry(("python", *flags, os.path.relpath(script, start)), directory, {})


def interpreter_flags(original: Sequence[str]) -> tuple[str, ...]:
    """What stands between the interpreter and what it runs."""
    words = list(original[1:])
    flags: list[str] = []
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        flags.append(words.pop(0))
        if flags[-1] in _WITH_VALUE and words:
            flags.append(words.pop(0))
    return tuple(flags)


def _is_installed(facts: Facts) -> bool:
    return bool(facts.main) and Path(facts.main).parent == Path(facts.executable).parent


def _console_script(name: str) -> str:
    for found in entry_points(group="console_scripts"):
        if found.name == name:
            return _CALL.format(
                module=found.module, name=found.attr.partition(".")[0], call=found.attr
            )
    return ""
