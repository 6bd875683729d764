"""Which files of a context its .dockerignore leaves out: the patterns of Go's filepath.Match."""

import re
from collections.abc import Callable, Iterator

from xmcloud.core.errors import InvalidInput

_TOKEN = re.compile(r"(?P<any>\*\*/?)|(?P<star>\*)|(?P<one>\?)|(?P<set>\[[^\]]+\])|\\?(?P<text>.)")


def ignored_by(text: str) -> Callable[[str], bool]:
    """Whether a path in the context is left out; the last pattern that matches it decides.

    Raises InvalidInput.
    """
    patterns = list(_patterns(text))

    def ignored(path: str) -> bool:
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        verdict = False
        for pattern, leaves_out in patterns:
            if verdict != leaves_out and any(map(pattern.fullmatch, above)):
                verdict = leaves_out
        return verdict

    return ignored


def _patterns(text: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    for line in text.removeprefix("\ufeff").splitlines():
        pattern = line.strip()
        if not pattern or line.startswith("#"):
            continue
        exception = pattern.startswith("!")
        parts = pattern.removeprefix("!").strip().split("/")
        cleaned = "/".join(part for part in parts if part not in ("", "."))
        if cleaned:
            regex = "".join(map(_regex, _TOKEN.finditer(cleaned)))
            yield _compiled(regex, line), not exception


def _compiled(regex: str, line: str) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.DOTALL)
    except re.error:
        raise InvalidInput(".dockerignore", line, "a pattern of file names") from None


def _regex(token: re.Match[str]) -> str:
    if token["any"]:
        return "(?:.*/)?" if token["any"].endswith("/") else ".*"
    if token["star"]:
        return "[^/]*"
    if token["one"]:
        return "[^/]"
    if token["set"]:
        inside = token["set"][1:-1]
        negated = inside.startswith("^")
        escaped = inside.removeprefix("^").replace("[", r"\[")
        return f"[{'^' if negated else ''}{escaped}]"
    return re.escape(token["text"])
