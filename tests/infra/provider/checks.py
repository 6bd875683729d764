"""What a provider refuses in a configuration, as far as its schema tells."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.infra.provider.values import Block

Step = tuple[str, Any]
Problem = tuple[str, list[Step]]
"""What is wrong, and the way to the attribute."""
_ENUMERATION = re.compile(r"Possible values: (\[[^\]]*\])")


def problems(block: Block, value: Any, path: list[Step]) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    for name, attribute in block["attributes"].items():
        where = [*path, ("attribute_name", name)]
        for problem in _of_attribute(name, attribute, value.get(name)):
            yield problem, where
    for name, nested in block["block_types"].items():
        found = value.get(name)
        where = [*path, ("attribute_name", name)]
        if isinstance(found, dict):
            yield from problems(nested["block"], found, where)
        for place, each in enumerate(found if isinstance(found, list) else []):
            at = [("element_key_int", place)] if nested["nesting_mode"] == "list" else []
            yield from problems(nested["block"], each, [*where, *at])


def _of_attribute(name: str, attribute: Block, value: Any) -> Iterator[str]:
    if value is None:
        return
    if attribute.get("computed") and not attribute.get("optional"):
        yield f"{name} is decided by the provider"
    allowed = _ENUMERATION.search(attribute.get("description", ""))
    if allowed and isinstance(value, str) and value not in json.loads(allowed.group(1)):
        yield f"{name} is {value!r}, and must be one of {allowed.group(1)}"
