"""Which methods of the ports an entry point can reach, by following names through the source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from xmcloud.core.platforms import Builder, Platform
from xmcloud.core.ports import Blobs, Queue, Store
from xmcloud.core.secrets import Secrets

SOURCE = Path(__file__).parents[2] / "functions"
PACKAGES = ("xmcloud.core", "xmcloud.functions")
PORTS = {
    name: {method for method in dir(port) if method[0] != "_" and method != "close"}
    for name, port in {
        "store": Store, "queue": Queue, "blobs": Blobs, "builder": Builder, "platform": Platform,
        "secrets": Secrets,
    }.items()
}  # fmt: skip
Name = tuple[str, str]
"""A module and what it defines."""
SERVED = ("xmcloud.functions.http.app", "create_app")
"""Made by every process, and called by requests to `api` alone."""


@dataclass(slots=True)
class Module:
    """What each function, method or class of a module defines, and what its names stand for."""

    defined: dict[str, ast.AST] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)


def reached(entry_point: str) -> set[tuple[str, str]]:
    """(port, method) of all that the entry point may call; rather too many than too few."""
    return _ports(_roots(entry_point))


def _roots(entry_point: str) -> list[Name]:
    entries = "xmcloud.functions.entrypoints"
    if entry_point != "api":
        return [(entries, entry_point)]
    http = [name for name in _modules() if name.startswith("xmcloud.functions.http.")]
    return [(name, defined) for name in http for defined in _modules()[name].defined]


def _ports(roots: list[Name]) -> set[tuple[str, str]]:
    seen, waiting = {*roots, SERVED}, list(roots)
    found: set[tuple[str, str]] = set()
    while waiting:
        module, name = waiting.pop()
        node = _modules()[module].defined[name]
        found.update(_called(node))
        for other in _mentioned(module, node):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return found


def _called(node: ast.AST) -> Iterator[tuple[str, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute):
            receiver = ast.unparse(each.value).removesuffix("(plane)").rpartition(".")[2]
            port = receiver.removeprefix("_")
            if each.attr in PORTS.get(port, ()):
                yield port, each.attr


def _mentioned(module: str, node: ast.AST) -> Iterator[Name]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield from _resolved(module, each.id)
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            yield from _resolved(_modules()[module].imported.get(each.value.id, ""), each.attr)


def _resolved(module: str, name: str) -> Iterator[Name]:
    """Through as many imports as it takes."""
    if module not in _modules():
        return
    if name in _modules()[module].defined:
        yield module, name
    elif target := _modules()[module].imported.get(name, ""):
        yield from _resolved(*_split(target))


def _split(target: str) -> Name:
    module, _, name = target.rpartition(".")
    return module, name


@cache
def _modules() -> dict[str, Module]:
    found = {}
    for package in PACKAGES:
        for path in (SOURCE / package.replace(".", "/")).rglob("*.py"):
            name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = _read(path)
    return found


def _read(path: Path) -> Module:
    module = Module()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            module.defined[node.name] = node
        elif isinstance(node, ast.Assign):
            module.defined |= {t.id: node.value for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                module.imported[name.asname or name.name] = f"{node.module}.{name.name}"
    return module
