"""What a Dockerfile says about how its image starts."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_ESCAPE = re.compile(r"#\s*escape\s*=\s*(\S)\s*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*\w+\s*=.*")
_HEREDOC = re.compile(r"<<-?([\"']?)(\w+)\1")
_FROM = re.compile(r"(?:--\S+\s+)*(?P<base>\S+)(?:\s+AS\s+(?P<name>\S+))?\s*", re.IGNORECASE)
_WITH_HEREDOCS = ("RUN", "COPY", "ADD")


@dataclass(frozen=True)
class Startup:
    """How the image of a stage starts, as far as its Dockerfile says.

    `base` is the image it stands on, outside the Dockerfile; `cmd` is as written there.
    """

    base: str = ""
    entrypoint: tuple[str, ...] = ()
    cmd: str | None = None
    shell: tuple[str, ...] = ("/bin/sh", "-c")


def startup(text: str) -> Startup:
    """Of the last stage; what it inherits from earlier ones counts."""
    stages: dict[str, Startup] = {}
    current, name, has_cmd = Startup(), "", False
    for keyword, rest in instructions(text):
        match keyword:
            case "FROM" if found := _FROM.fullmatch(rest):
                base = found["base"]
                current = stages.get(base.lower(), Startup(base=base))
                name, has_cmd = (found["name"] or "").lower(), False
            case "SHELL":
                current = replace(current, shell=words(rest, current.shell))
            case "CMD":
                current, has_cmd = replace(current, cmd=rest), True
            case "ENTRYPOINT":
                cmd = current.cmd if has_cmd else None
                current = replace(current, entrypoint=words(rest, current.shell), cmd=cmd)
        stages[name] = current
    return current


def words(text: str, shell: tuple[str, ...]) -> tuple[str, ...]:
    """The command that an instruction gives, as a JSON list or as a line for the shell."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    return (*shell, text)


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each with its name in capitals; lines that belong together are joined."""
    lines = iter(text.splitlines())
    escape = _escape(text)
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        whole = _joined(line, lines, escape)
        keyword, rest = [*whole.split(maxsplit=1), ""][:2]
        if keyword.upper() in _WITH_HEREDOCS:
            for end in _HEREDOC.findall(rest):
                _skip_heredoc(lines, end[1])
        yield keyword.upper(), rest.strip()


def _joined(line: str, lines: Iterator[str], escape: str) -> str:
    joined = ""
    while line.rstrip().endswith(escape):
        joined += line.rstrip()[:-1]
        line = next(
            (more for more in lines if more.strip() and not more.lstrip().startswith("#")), ""
        )
    return joined + line


def _skip_heredoc(lines: Iterator[str], end: str) -> None:
    for line in lines:
        if line.lstrip("\t") == end:
            return


def _escape(text: str) -> str:
    """The directive stands above everything else."""
    for line in text.splitlines():
        if found := _ESCAPE.fullmatch(line.strip()):
            return found[1]
        if not _DIRECTIVE.fullmatch(line.strip()):
            break
    return "\\"
