"""What two runs have in common and what not, as data."""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum

from pydantic import JsonValue

from xmcloud.core.base import Json, Model


class Section(StrEnum):
    CODE = "code"
    COMMAND = "command"
    PARAMETERS = "parameters"
    ENVIRONMENT = "environment"
    SECRETS = "secrets"
    REQUIREMENTS = "requirements"
    PACKAGES = "packages"
    RESOURCES = "resources"
    MACHINE = "machine"
    OUTCOME = "outcome"
    RESULTS = "results"


class Change(StrEnum):
    """From A to B."""

    EQUAL = "equal"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


class Difference(Model):
    """One thing of two runs, also when it is equal. What a run does not have is null."""

    section: Section
    name: str
    change: Change
    a: Json = None
    b: Json = None
    note: str = ""


class Pair(Model):
    """Two jobs, by what a command takes for them."""

    a: str
    b: str
    differences: list[Difference]
    unknown: list[str] = []

    @property
    def same(self) -> bool:
        return not self.unequal()

    def unequal(self, *but: Section) -> list[Difference]:
        """What differs, in other sections than those."""
        return [
            each
            for each in self.differences
            if each.change is not Change.EQUAL and each.section not in but
        ]


class Comparison(Model):
    """All pairs of jobs of two runs, and the jobs that only one of the two has."""

    same: bool
    pairs: list[Pair]
    only_a: list[str] = []
    only_b: list[str] = []


def between(
    section: Section, a: Mapping[str, JsonValue], b: Mapping[str, JsonValue]
) -> Iterator[Difference]:
    """One for each name, those of A first."""
    for name in dict.fromkeys([*a, *b]):
        yield Difference(
            section=section, name=name, change=_change(name, a, b), a=a.get(name), b=b.get(name)
        )


def _change(name: str, a: Mapping[str, JsonValue], b: Mapping[str, JsonValue]) -> Change:
    if name not in b:
        return Change.REMOVED
    if name not in a:
        return Change.ADDED
    return Change.EQUAL if equal(a[name], b[name]) else Change.CHANGED


def equal(a: JsonValue, b: JsonValue) -> bool:
    """With their types: 1, 1.0, True and '1' are four values."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
