"""Which instruction of a Dockerfile failed, as the log of its build tells."""

import re
from collections.abc import Sequence

TAIL_LINES = 40

# What Cloud Build puts before the lines of a build of several steps.
_PREFIX = re.compile(r'^Step #\d+(?: - "[^"]*")?: ')
_BUILDKIT_FAILED = re.compile(r"^ > \[(?:\S+ )?(?:\d+/\d+|internal)\] (?P<step>.+?):?$")
_CLASSIC = re.compile(r"^Step \d+/\d+ : (?P<step>.+)$")
_CLASSIC_FAILED = re.compile(r"^The command '(?P<command>.+)' returned a non-zero code: \d+$")
_SHELL = re.compile(r"^/bin/(?:ba)?sh (?:-\w+ )*-c ")
_INSTRUCTIONS = (
    "ADD|ARG|CMD|COPY|ENTRYPOINT|ENV|EXPOSE|FROM|HEALTHCHECK|LABEL|MAINTAINER|ONBUILD|RUN"
    "|SHELL|STOPSIGNAL|USER|VOLUME|WORKDIR"
)
_KANIKO = re.compile(rf"^INFO\[\d+\] (?P<step>(?:{_INSTRUCTIONS}) .+)$")


def failed_step(log: str) -> str:
    """The instruction, as in the Dockerfile; '' when the end of the log does not tell."""
    lines = [_PREFIX.sub("", line) for line in log.splitlines()]
    if "PUSH" in lines or any(line.startswith("error pushing image") for line in lines):
        return "push"
    for pattern in (_BUILDKIT_FAILED, _CLASSIC, _KANIKO):
        if found := _last(pattern, lines):
            return found["step"].strip()
    if found := _last(_CLASSIC_FAILED, lines):  # more output than the end of the log holds
        return f"RUN {_SHELL.sub('', found['command'])}"
    return ""


def _last(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next(filter(None, map(pattern.match, reversed(lines))), None)
