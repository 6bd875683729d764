"""What may be called how."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from xmcloud.core.names import (
    Digest,
    EnvName,
    Id,
    Key,
    Slug,
    Text,
    Title,
    derived_id,
    random_id,
)

NAMES: dict[str, tuple[Any, list[str], list[str]]] = {
    "slug": (
        Slug,
        ["a", "a1", "gpu-large", "a" * 63],
        ["", "A", "1a", "-a", "a-", "a_b", "a" * 64, "a\n", "ä"],
    ),
    "title": (
        Title,
        ["ResNet 50", "Überprüfung ✓", "a/b", "x" * 1000],
        ["", "  ", "a\nb", "a\0", "\x7f", "\ud800", "x" * 1001],
    ),
    "text": (Text, ["", "line\nbreak\ttab", "é", "\x7f"], ["a\0b", "\udfff"]),
    "id": (
        Id,
        ["a" * 16, "234567abcdefghij"],
        ["a" * 15, "a" * 17, "A" * 16, "0" * 16, "a" * 16 + "\n"],
    ),
    "digest": (Digest, ["0123456789abcdef" * 4], ["a" * 63, "g" * 64, "A" * 64]),
    "variable": (EnvName, ["PATH", "_x", "a1"], ["", "1a", "a-b", "a=b", "a b", "a\n"]),
    "key": (Key, ["k", "x" * 255], ["", "x" * 256, "a\n"]),
}
KINDS = [pytest.param(kind, good, bad, id=name) for name, (kind, good, bad) in NAMES.items()]


@pytest.mark.parametrize(("kind", "good", "bad"), KINDS)
def test_what_is_allowed_and_what_refused(kind: Any, good: list[str], bad: list[str]) -> None:
    checked: TypeAdapter[str] = TypeAdapter(kind)
    assert [checked.validate_python(name) for name in good] == good
    for name in bad:
        with pytest.raises(ValidationError):
            checked.validate_python(name)


def test_random_ids_are_ids_and_differ() -> None:
    made = {random_id() for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"[a-z2-7]{16}", id) for id in made)


@given(st.lists(st.text(min_size=1).filter(lambda text: "\0" not in text), min_size=1))
def test_a_derived_id_is_the_same_for_the_same_parts_only(parts: list[str]) -> None:
    id = derived_id(*parts)
    assert id == derived_id(*parts)
    assert re.fullmatch(r"[a-z2-7]{16}", id)
    assert id != derived_id(*parts, "more")
    assert id != derived_id("".join(parts) + "x")
