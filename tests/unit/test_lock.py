"""The lock files agree with pyproject.toml and with each other, told without a network."""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BASE = PYPROJECT["project"]["dependencies"]
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
DEPLOYED = [*BASE, *EXTRAS["gcp"], *EXTRAS["kubernetes"]]
DEVELOPMENT = PYPROJECT["dependency-groups"]["dev"]

DEV_LOCK = ROOT / "requirements" / "dev.lock"
FUNCTIONS_LOCK = ROOT / "functions" / "requirements.txt"
BOTH = pytest.mark.parametrize("path", [DEV_LOCK, FUNCTIONS_LOCK], ids=lambda path: path.name)

PIN = re.compile(r"[a-z0-9][a-z0-9.-]*==[^\s;]+( ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def pins(path: Path) -> list[Requirement]:
    lines = path.read_text().splitlines()
    return [Requirement(line.removesuffix(" \\")) for line in lines if PIN.fullmatch(line)]


def names(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def drifted(wanted: Iterable[str], locked: list[Requirement]) -> list[str]:
    """The wanted requirements that no pin satisfies, or some pin breaks."""
    versions: dict[str, list[str]] = {}
    for pin in locked:
        versions.setdefault(pin.name, []).extend(spec.version for spec in pin.specifier)
    found = [(Requirement(text), text) for text in wanted]
    return [
        text
        for requirement, text in found
        if not (pinned := versions.get(canonicalize_name(requirement.name)))
        or not all(requirement.specifier.contains(v, prereleases=True) for v in pinned)
    ]


def installed_closure(wanted: Iterable[str]) -> set[str]:
    """Names of all that `wanted` brings on this platform, read from the environment."""
    seen: set[tuple[str, str]] = set()
    waiting = [r for r in map(Requirement, wanted) if not r.marker or r.marker.evaluate()]
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *requirement.extras):
            key = (canonicalize_name(requirement.name), extra)
            if key in seen:
                continue
            seen.add(key)
            children = map(Requirement, requires(requirement.name) or [])
            waiting += [c for c in children if not c.marker or c.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}


def test_the_dev_lock_satisfies_every_dependency() -> None:
    wanted = [*BASE, *chain.from_iterable(EXTRAS.values()), *DEVELOPMENT]
    assert drifted(wanted, pins(DEV_LOCK)) == [], "run `make lock`"


def test_the_functions_lock_satisfies_what_runs_on_google_cloud() -> None:
    assert drifted(DEPLOYED, pins(FUNCTIONS_LOCK)) == [], "run `make lock`"


def test_a_missing_or_outgrown_pin_is_drift() -> None:
    locked = [Requirement("click==8.2.0"), Requirement("rich==14.0")]
    assert drifted(["click>=8.1", "rich>=15", "httpx"], locked) == ["rich>=15", "httpx"]


def test_the_functions_lock_agrees_with_the_dev_lock() -> None:
    everything = {(pin.name, str(pin.specifier)) for pin in pins(DEV_LOCK)}
    assert {(pin.name, str(pin.specifier)) for pin in pins(FUNCTIONS_LOCK)} <= everything


def test_the_functions_lock_is_whole_and_brings_no_development_tool() -> None:
    locked = {pin.name for pin in pins(FUNCTIONS_LOCK)}
    needed = installed_closure(DEPLOYED)
    assert needed - locked == set()
    assert locked & (names(DEVELOPMENT) - needed) == set()


@BOTH
def test_a_lock_holds_pins_and_hashes_only(path: Path) -> None:
    """No index, mirror, link or local path: it installs from wherever the installer looks."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    odd = [line for line in lines if not PIN.fullmatch(line) and not HASH.fullmatch(line)]
    assert odd == []
    assert "://" not in path.read_text()


@BOTH
def test_every_pin_has_a_hash(path: Path) -> None:
    text = path.read_text()
    bare = [
        pin.name
        for pin in pins(path)
        if not re.search(rf"^{pin.name}==.*\n +--h", text, re.MULTILINE)
    ]
    assert bare == []
