"""Reads the schema of a provider out of its prebuilt constructs for CDK for Terraform.

Each construct's TypeScript says for every attribute whether it is computed, optional or required,
how it is written in HCL, and, in its documentation, which values are possible.
"""

import re
from collections.abc import Mapping
from typing import Any

_ROW = re.compile(
    r"^  // (\w+) - computed: (\w+), optional: (\w+), required: (\w+)\n"
    r"((?:(?!  // ).*\n){1,5})",
    re.MULTILINE,
)
_HCL = re.compile(
    r'^\s+(\w+): \{\n\s+value: .*,\n\s+isBlock: (\w+),\n\s+type: "(\w+)",'
    r'\n\s+storageClassType: "(\w+)"',
    re.MULTILINE,
)
_DOCUMENTED = re.compile(r"/\*\*\n((?:(?!\*/)[\s\S])*?)\*/\s*\n  readonly (\w+)(\??):")
_LINK = re.compile(r"\{@link [^ #]+#(\w+) ")
_SAID = re.compile(r'Possible values: \[[^\]]*\]|Default value: "[^"]*"')
_REFERENCE = re.compile(r"= new ([\w.]+?)\(this, \"\w+\"(?:, (\w+))?\)")
_SIMPLE = {"string": "string", "number": "number", "boolean": "bool", "any": "string"}
Json = dict[str, Any]


class Construct:
    """One TypeScript module: a resource, a data source or the provider, and its blocks."""

    def __init__(self, text: str) -> None:
        self._rows: dict[str, list[tuple[str, ...]]] = {}
        self._hcl: dict[str, dict[str, tuple[str, str, str]]] = {}
        self._documents: dict[str, dict[str, tuple[str, bool]]] = {}
        self.roots: list[tuple[str, str, str]] = []
        for part in re.split(
            r"^(?=export (?:class|function|interface|abstract))", text, flags=re.MULTILINE
        ):
            self._take(part)

    def _take(self, part: str) -> None:
        if found := re.match(r"export class (\w+) extends \w+\.(\w+)", part):
            name, base = found.groups()
            self._rows[name] = _ROW.findall(part)
            kind = re.search(r'static readonly tfResourceType = "(\w+)"', part)
            if kind and base in ("TerraformResource", "TerraformDataSource", "TerraformProvider"):
                self.roots.append((name, base, kind[1]))
                self._hcl[name] = _hcl(part)
        elif found := re.match(r"export function (\w+?)ToHclTerraform\(", part):
            self._hcl[found[1][0].upper() + found[1][1:]] = _hcl(part)
        elif found := re.match(r"export interface (\w+)", part):
            self._documents[found[1]] = _documents(part)

    def block(self, name: str, interface: str = "", seen: tuple[str, ...] = ()) -> Json:
        """`seen` ends the few constructs that hold themselves."""
        out: Json = {"attributes": {}, "block_types": {}}
        if name in seen:
            return out
        documents = self._documents.get(interface or name, {})
        hcl = self._hcl.get(name, {})
        for attribute, computed, optional, required, body in self._attributes(name, interface):
            said, _ = documents.get(attribute, ("", False))
            is_block, kind, store = hcl.get(attribute, ("false", "", ""))
            nested, single, unordered = _nested(is_block, kind, store, body)
            if is_block == "true":
                inner = self.block(nested, seen=(*seen, name))
                out["block_types"][attribute] = _block_type(
                    inner, kind, unordered, single, required == "true"
                )
                continue
            flags = {"computed": computed, "optional": optional, "required": required}
            described: Json = {key: True for key, flag in flags.items() if flag == "true"}
            described["type"] = (
                self._object(nested, kind, unordered, (*seen, name))
                if nested
                else _type(kind, store, body)
            )
            if said:
                described["description"] = said
            if attribute.endswith("_wo"):
                described["write_only"] = True
            out["attributes"][attribute] = described
        return out

    def _attributes(self, name: str, interface: str) -> list[tuple[str, ...]]:
        own = name if interface and name in self._rows else f"{name}OutputReference"
        if rows := self._rows.get(own, self._rows.get(name, [])):
            return rows
        documents = self._documents.get(interface or name, {})
        optional = {
            key: str(documents.get(key, ("", True))[1]).lower() for key in self._hcl.get(name, {})
        }
        flipped = {"true": "false", "false": "true"}
        return [(key, "false", flag, flipped[flag], "") for key, flag in optional.items()]

    def _object(self, name: str, kind: str, unordered: bool, seen: tuple[str, ...]) -> Any:
        found = ["object", _fields(self.block(name, seen=seen))]
        if kind == "struct":
            return found
        return ["set" if kind == "set" or unordered else "list", found]


def _hcl(part: str) -> dict[str, tuple[str, str, str]]:
    return {name: (block, kind, store) for name, block, kind, store in _HCL.findall(part)}


def _documents(part: str) -> dict[str, tuple[str, bool]]:
    """By attribute: which values it may have, and whether it may be left out."""
    found = {}
    for text, _, mark in _DOCUMENTED.findall(part):
        if link := _LINK.search(text):
            found[link[1]] = (" ".join(_SAID.findall(text)), mark == "?")
    return found


def _nested(is_block: str, kind: str, store: str, body: str) -> tuple[str, bool, bool]:
    """The block behind an attribute, if there is one; whether it is one only; whether a set."""
    reference = _REFERENCE.search(body)
    if reference and "." not in reference[1]:
        name = re.sub(r"(OutputReference|List|Map)$", "", reference[1])
        return name, reference[1].endswith("OutputReference"), reference[2] == "true"
    if is_block == "true" or (kind in ("list", "set", "struct") and store[0].isupper()):
        return re.sub(r"(List|Set)$", "", store), False, False
    return "", False, False


def _block_type(inner: Json, kind: str, unordered: bool, single: bool, required: bool) -> Json:
    if kind == "struct":
        return {"nesting_mode": "single", "block": inner}
    mode = "set" if kind == "set" or unordered else "list"
    out: Json = {"nesting_mode": mode, "block": inner}
    return out | ({"min_items": 1} if required else {}) | ({"max_items": 1} if single else {})


def _fields(block: Json) -> Json:
    nested: Mapping[str, Json] = block["block_types"]
    blocks = {name: ["list", ["object", _fields(each["block"])]] for name, each in nested.items()}
    return {name: each["type"] for name, each in block["attributes"].items()} | blocks


def _type(kind: str, store: str, body: str) -> Any:
    if kind == "simple":
        return _SIMPLE[store]
    if kind:
        if element := re.fullmatch(r"(string|number|boolean)(List|Map)", store):
            return [kind, _SIMPLE[element[1]]]
        return [kind, ["map", "string"]] if store.endswith("MapList") else [kind, "string"]
    if (reference := _REFERENCE.search(body)) and (
        computed := re.search(r"\.(String|Number|Boolean|Any)Map(List)?$", reference[1])
    ):
        of = ["map", _SIMPLE[computed[1].lower()]]
        return ["list", of] if computed[2] else of
    found = re.search(r"get(String|Number|Boolean|Any)?(Map|List)?(?:Map)?Attribute\(", body)
    if not found:
        return "string"
    element_type = _SIMPLE[(found[1] or "string").lower()]
    if found[2] == "Map":
        return ["map", element_type]
    if found[2] == "List":
        return ["set" if "Fn.tolist" in body else "list", element_type]
    return element_type
