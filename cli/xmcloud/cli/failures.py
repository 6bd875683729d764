"""How a refusal reaches a person or a program."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from xmcloud.core.errors import InvalidInput, XmcloudError

JSON = "xmcloud.json"
"""In the context's `meta`: whether `--json` was given."""


def report(error: XmcloudError, as_json: bool) -> None:
    """`Error: ...` on stderr; with `as_json` also problem details on stdout."""
    click.echo(f"Error: {error}", err=True)
    if as_json:
        from xmcloud.core.protocol import Problem

        click.echo(Problem.of(error).model_dump_json(indent=2))


@contextmanager
def parsing() -> Iterator[None]:
    """Building a model from what a person typed: raises InvalidInput instead of pydantic's."""
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise InvalidInput(field, first["input"], _expected(first["type"], first["msg"])) from None


def _expected(kind: str, message: str) -> str:
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(message.partition("'")[2].rstrip("'"), f"valid ({message})")
    return f"valid ({message.removeprefix('Value error, ')})"


_PATTERNS = {
    "^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$": (
        "a name such as gpu-2: at most 63 small letters, digits and hyphens, a letter first"
    ),
    r"^[a-zA-Z_]\w*$": "the name of a variable: letters, digits and underscores, no digit first",
}
