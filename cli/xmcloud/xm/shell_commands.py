"""Shell commands that pass a script's own arguments on."""

import re
from collections.abc import Sequence

# Quoted and escaped text is matched first, so that `bare` only matches what the shell would split.
_TOKEN = re.compile(
    r"""'[^']*' | \\. | (?P<quoted>"(?:\\.|[^"\\])*") | (?P<bare>\$(?:[@*]|\{[@*]\}))""",
    re.VERBOSE | re.DOTALL,
)
_ARGUMENTS = re.compile(r"(?<!\\)\$(?:[@*]|\{[@*]\})")


def with_arguments(commands: Sequence[str]) -> str:
    """Lines of a shell script in which `$@` passes every argument on whole.

    An unquoted `$@` is quoted; if no command names it, the last one gets it.
    """
    lines = [_TOKEN.sub(_quoted, command) for command in commands]
    if lines and not any(map(_takes_arguments, lines)):
        lines[-1] += ' "$@"'
    return "\n".join(lines)


def _quoted(token: re.Match[str]) -> str:
    return '"$@"' if token["bare"] in ("$@", "${@}") else token[0]


def _takes_arguments(command: str) -> bool:
    return any(
        token["bare"] or (token["quoted"] and _ARGUMENTS.search(token["quoted"]))
        for token in _TOKEN.finditer(command)
    )
