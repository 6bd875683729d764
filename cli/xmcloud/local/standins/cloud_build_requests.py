"""What Cloud Build checks of a request before it takes it."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from google.cloud.devtools import cloudbuild_v1

DOCKER = "gcr.io/cloud-builders/docker"
KANIKO = "gcr.io/kaniko-project/executor"

_MOST_STEPS, _MOST_ARGS, _MOST_TAGS, _MOST_IMAGES = 300, 100, 64, 100
_LONGEST_ARG = 10_000
_LONGEST = timedelta(hours=24)
_TAG = re.compile(r"[\w][\w.-]{0,127}")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?:[a-zA-Z0-9.-]+)(?::\d+)?/)?{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?"
)
_BUCKET = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](?:/.*)?")
_ENV = re.compile(r"[^=]+=.*", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{?(?P<name>[A-Z_][A-Z0-9_]*)\}?)")
_TERM = re.compile(r'\s*(?P<field>tags|status)\s*=\s*"?(?P<value>[\w.-]+)"?\s*')

Predicate = Callable[[cloudbuild_v1.Build], bool]


class Invalid(Exception):
    """INVALID_ARGUMENT, with what the field must be."""


def check(build: cloudbuild_v1.Build) -> None:
    """Raises `Invalid`."""
    if not build.steps:
        raise Invalid("invalid build: no build steps are specified")
    for many, most, what in (
        (build.steps, _MOST_STEPS, "build steps"),
        (build.tags, _MOST_TAGS, "tags"),
        (build.images, _MOST_IMAGES, "images"),
    ):
        if len(many) > most:
            raise Invalid(f"invalid build: {len(many)} {what}; at most {most} are allowed")
    for tag in build.tags:
        _require(_TAG.fullmatch(tag), f"invalid build tag {tag!r}: must match {_TAG.pattern}")
    for image in build.images:
        _require(
            _IMAGE.fullmatch(image),
            f"invalid image name {image!r}: could not parse reference",
        )
    timeout: Any = build.timeout  # a timedelta, whatever its annotation says
    if not timedelta() < (timeout or timedelta(hours=1)) <= _LONGEST:
        raise Invalid(f"invalid build: timeout {build.timeout} must be positive and at most 24h")
    source = build.source.storage_source
    _require(source.bucket and source.object_, "invalid source: no bucket and object are named")
    _check_logs(build)
    for number, step in enumerate(build.steps):
        _check_step(number, step)


def _check_logs(build: cloudbuild_v1.Build) -> None:
    modes = cloudbuild_v1.BuildOptions.LoggingMode
    _require(
        build.options.logging is modes.GCS_ONLY and _BUCKET.fullmatch(build.logs_bucket),
        "invalid build: logging must be GCS_ONLY with logs_bucket as gs://BUCKET or"
        f" gs://BUCKET/FOLDER, not {build.logs_bucket!r}",
    )


def _check_step(number: int, step: cloudbuild_v1.BuildStep) -> None:
    where = f"invalid build: invalid build step {number}"
    if len(step.args) > _MOST_ARGS or any(len(arg) > _LONGEST_ARG for arg in step.args):
        raise Invalid(f"{where}: at most {_MOST_ARGS} args of {_LONGEST_ARG} characters")
    for setting in step.env:
        _require(_ENV.fullmatch(setting), f"{where}: env {setting!r} must be KEY=VALUE")
    for arg in step.args:
        if unknown := [v["name"] for v in _VARIABLE.finditer(arg) if v["name"]]:
            raise Invalid(
                f"{where}: key in the template {unknown[0]!r} is not a valid built-in substitution"
            )
    image, _, _ = step.name.partition(":")
    known = (image == KANIKO) or (image == DOCKER and step.args[:1] == ["build"])
    _require(
        known and not step.entrypoint and not step.script,
        f"{where}: here run only {DOCKER} with `build`, and {KANIKO}",
    )


def literal(arg: str) -> str:
    """The argument that the step receives."""
    return arg.replace("$$", "$")


def wanted(text: str) -> Predicate:
    """Which builds a filter means: tags="T" and status="S", joined by AND. Raises `Invalid`."""
    terms = [_TERM.fullmatch(term) for term in re.split(r"\bAND\b", text)] if text.strip() else []
    asked = [(term["field"], term["value"]) for term in terms if term]
    _require(len(asked) == len(terms), f"invalid list filter: {text!r}")
    statuses = cloudbuild_v1.Build.Status.__members__
    for field, value in asked:
        _require(field != "status" or value in statuses, f"invalid list filter: no status {value}")
    return lambda build: all(
        value in build.tags if field == "tags" else build.status.name == value
        for field, value in asked
    )


def _require(condition: object, message: str) -> None:
    if not condition:
        raise Invalid(message)
