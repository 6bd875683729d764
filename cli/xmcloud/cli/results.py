"""What a job came to, taken apart; whoever wrote the results is not trusted."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeGuard, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from xmcloud.core.base import Json, Model
from xmcloud.core.names import Digest
from xmcloud.core.outputs import parsed
from xmcloud.core.series import NAMES, POINTS
from xmcloud.xm_cloud.client import Client
from xmcloud.xm_cloud.rows import short

LARGEST_BYTES = 8_000_000
"""What is fetched only to be looked at."""

T = TypeVar("T")
Scalar = str | int | float | bool


class Glance(Model):
    """What is known of a series; NaN and infinities are text."""

    last: float | str
    min: float | str
    max: float | str
    count: int


class Input(Model):
    """A file that the job read, or a folder of which the list of files is measured."""

    path: str
    size: int
    digest: Digest


class Points(Model):
    """The blobs with the points of all series, and with the names of these."""

    points: Digest
    names: Digest


_SUMMARY: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_SERIES = TypeAdapter(dict[str, Glance])
_INPUTS = TypeAdapter(dict[str, Input])
_FILES = TypeAdapter(dict[str, Digest])
_WHOLE = TypeAdapter(Digest)
_RESULTS: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, Json])


@dataclass(frozen=True, slots=True)
class Results:
    """`plain` is what the job itself wrote; the rest has the forms of docs/capture.md."""

    plain: dict[str, JsonValue] = field(default_factory=dict)
    summary: dict[str, JsonValue] = field(default_factory=dict)
    series: dict[str, Glance] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, Input] = field(default_factory=dict)
    points: Points | None = None
    cut: bool = False

    @classmethod
    def of(cls, results: Mapping[str, JsonValue]) -> Self:
        """What has another form, or other fields, is plain."""
        left = dict(results)
        cut = left.get("cut") is True
        if cut:
            left = {name: value for name, value in left.items() if name not in ("cut", "whole")}
        series = _taken(left, "series", _SERIES) or {}
        files = _taken(left, "blobs", _FILES) or {}
        points = None
        if series and {POINTS, NAMES} <= files.keys():
            points = Points(points=files.pop(POINTS), names=files.pop(NAMES))
        summary = _taken(left, "summary", _SUMMARY) or {}
        inputs = _taken(left, "inputs", _INPUTS) or {}
        return cls(left, summary, series, files, inputs, points, cut)

    def scalars(self) -> Iterator[tuple[str, Scalar]]:
        """What fits one cell: of summary and plain results, of series, of objects in the former."""
        values = [*self.summary.items(), *self.plain.items()]
        yield from ((name, value) for name, value in values if _scalar(value))
        yield from ((name, glance.last) for name, glance in self.series.items())
        for name, value in values:
            if isinstance(value, dict):
                yield from ((f"{name}.{n}", part) for n, part in value.items() if _scalar(part))


def whole_results(client: Client, results: Mapping[str, JsonValue]) -> Results:
    """With all that results could not hold, unless that is gone or too large to look at."""
    if results.get("cut") is True:
        digest = _checked(_WHOLE, results.get("whole"))
        data = small_blob(client, digest) if digest else None
        try:
            found = _checked(_RESULTS, parsed(data or b""))
        except ValueError:
            found = None
        if found is not None:
            return Results.of(found)
    return Results.of(results)


def small_blob(client: Client, digest: str) -> bytes | None:
    """None of one that is not there or has more than `LARGEST_BYTES`."""
    size = client.blob_size(digest)
    return None if size is None or size > LARGEST_BYTES else client.get_blob(digest)


def brief(results: Results) -> str:
    """`accuracy=0.9712 loss=0.03`."""
    return " ".join(f"{printable(name)}={short(value)}" for name, value in results.scalars())


def printable(text: str) -> str:
    """The same without what would move the cursor of a terminal or end the line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def compact(value: JsonValue) -> str:
    """In one line: text as it is, numbers with five digits, what has parts as JSON."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return number(value)
    return printable(json.dumps(_rounded(value), ensure_ascii=False))


def number(value: float) -> str:
    """`0.77687`, `12346`, `1.2e-05`: five digits, or all of a whole number."""
    plain = 1e4 <= abs(value) < 1e15
    return f"{value:.0f}" if plain else f"{value:.5g}"


def _rounded(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


def _scalar(value: JsonValue) -> TypeGuard[Scalar]:
    return isinstance(value, int | float) or (isinstance(value, str) and 0 < len(value) <= 24)


def _taken(left: dict[str, JsonValue], name: str, form: TypeAdapter[T]) -> T | None:
    """Out of `left`, if it has the form."""
    found = _checked(form, left.get(name))
    if found is not None:
        del left[name]
    return found


def _checked(form: TypeAdapter[T], value: Any) -> T | None:
    try:
        return form.validate_python(value)
    except ValidationError:
        return None
