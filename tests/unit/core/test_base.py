"""What every model can do."""

import pytest
from pydantic import ValidationError

from xmcloud.core.base import Model


class Inner(Model):
    name: str


class Outer(Model):
    inner: list[Inner] = []


def test_a_request_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="newer"):
        Outer.model_validate_json('{"newer": 1}')


def test_of_what_a_newer_version_wrote_the_unknown_fields_are_left_out() -> None:
    text = '{"inner": [{"name": "a", "newer": {"deep": 1}}], "newer": 1}'
    assert Outer.received(text) == Outer(inner=[Inner(name="a")])


def test_what_is_known_is_still_checked() -> None:
    with pytest.raises(ValidationError, match="name"):
        Outer.received('{"inner": [{"newer": 1}]}')
