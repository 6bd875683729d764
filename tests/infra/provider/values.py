"""What a provider would plan and return, made from the schema alone."""

import re
from collections.abc import Mapping
from typing import Any

import msgpack  # type: ignore[import-untyped]

UNKNOWN = msgpack.ExtType(0, b"\x00")
Block = Mapping[str, Any]
"""Of a schema: `attributes` and `block_types`."""
_NAMES = (
    "account_id",
    "role_id",
    "secret_id",
    "repository_id",
    "workload_identity_pool_id",
    "name",
)
_DEFAULT = re.compile(r'Default value: "([^"]*)"')


def is_unknown(value: object) -> bool:
    return isinstance(value, msgpack.ExtType)


def planned(block: Block, new: Any, prior: Any) -> Any:
    """What is configured, defaults that are documented, and unknown for what is computed."""
    if not isinstance(new, dict):
        return new
    before = prior if isinstance(prior, dict) else {}
    out = {
        name: _planned(block["attributes"].get(name), value, before.get(name))
        for name, value in new.items()
    }
    for name, nested in block["block_types"].items():
        value = new.get(name)
        if isinstance(value, dict):
            out[name] = planned(nested["block"], value, before.get(name))
        elif isinstance(value, list):
            out[name] = [planned(nested["block"], each, None) for each in value]
    return out


def _planned(attribute: Block | None, value: Any, prior: Any) -> Any:
    if attribute is None or value is not None:
        return None if attribute and attribute.get("write_only") else value
    if attribute.get("computed"):
        return UNKNOWN if prior is None else prior
    default = _DEFAULT.search(attribute.get("description", ""))
    return default.group(1) if default and attribute["type"] == "string" else None


def named(type_name: str, value: Any) -> str:
    """A resource of that type, by the first of what people name resources with."""
    names = [value.get(key) for key in _NAMES] if isinstance(value, dict) else []
    known = [name for name in names if isinstance(name, str)]
    return ".".join([type_name, *known[:1]])


def settled(block: Block, value: Any, path: str) -> Any:
    """With a made-up value for everything that is unknown or was left to be computed."""
    if not isinstance(value, dict):
        return value
    out = dict(value)
    for name, attribute in block["attributes"].items():
        if is_unknown(out.get(name)):
            out[name] = _made_up(attribute["type"], f"{path}-{name}")
    for name, nested in block["block_types"].items():
        if is_unknown(out.get(name)):
            out[name] = []
        elif isinstance(out.get(name), list):
            out[name] = [settled(nested["block"], each, f"{path}-{name}") for each in out[name]]
        else:
            out[name] = settled(nested["block"], out.get(name), f"{path}-{name}")
    return out


def _made_up(kind: Any, path: str) -> Any:
    match kind:
        case "string":
            return path
        case "number":
            return 1
        case "bool":
            return False
        case ["map", _]:
            return {}
        case ["object", fields]:
            return {name: _made_up(each, f"{path}-{name}") for name, each in fields.items()}
    return []


def empty(block: Block) -> dict[str, Any]:
    nested = block["block_types"].items()
    blocks: dict[str, Any] = {
        name: None if each["nesting_mode"] == "single" else [] for name, each in nested
    }
    return dict.fromkeys(block["attributes"]) | blocks
