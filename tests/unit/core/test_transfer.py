"""Which collections are exported, and how documents are read again."""

import json
import pkgutil
import re
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import xmcloud.core
from xmcloud.core.documents import JOBS, QUEUES, Collection
from xmcloud.core.errors import InvalidInput, NotFound
from xmcloud.core.indexes import require_index
from xmcloud.core.ports import Query
from xmcloud.core.transfer import (
    ORDERS,
    STAYING,
    TRANSFERRED,
    StoredDocument,
    carried,
    parsed,
    transferred,
)

FAST = '{"name":"fast","priority":1,"created_at":"2030-01-01T00:00:00Z"}'


def collections() -> set[str]:
    """The names of all that a module of the core defines."""
    modules = pkgutil.walk_packages(xmcloud.core.__path__, "xmcloud.core.")
    values = [value for each in modules for value in vars(import_module(each.name)).values()]
    return {value.name for value in values if isinstance(value, Collection)}


def test_no_collection_is_forgotten() -> None:
    known = [collection.name for collection in (*TRANSFERRED, *STAYING)]
    assert len(set(known)) == len(known)
    assert set(known) == collections()
    raw = json.loads((files("xmcloud.core") / "firestore.indexes.json").read_text("utf-8"))
    with_bodies = [f["collectionGroup"] for f in raw["fieldOverrides"] if f["fieldPath"] == "body"]
    assert set(known) == set(with_bodies)


def test_the_guide_empties_all_of_them_before_it_brings_them_back() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "backup.md").read_text("utf-8")
    (named,) = re.findall(r"--collection-ids (\S+)", guide)
    assert set(named.split(",")) == collections()


@pytest.mark.parametrize("collection", TRANSFERRED, ids=lambda each: each.name)
def test_a_declared_index_serves_the_reading_of_all_of_it(collection: Collection[Any]) -> None:
    require_index(Query(collection.name, order=ORDERS.get(collection.name, ())))


def test_a_broken_document_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"^jobs/k3v7 is .* must be valid \(experiment_id: "):
        parsed(JOBS, StoredDocument(id="k3v7", data={"body": '{"id": "k3v7qm2abcdefghi"}'}))
    for text in ("", "[]", '"id"', "{", "null", "[" * 5000):
        with pytest.raises(InvalidInput, match=r"^jobs/k3v7 is .* must be valid \(body: "):
            parsed(JOBS, StoredDocument(id="k3v7", data={"body": text}))
    with pytest.raises(InvalidInput, match=r"^jobs/k3v7 is None\. It must be valid \(it has no"):
        parsed(JOBS, StoredDocument(id="k3v7", data={}))
    with pytest.raises(InvalidInput, match=r"^queues/slow is .* must be that of fast\."):
        parsed(QUEUES, StoredDocument(id="slow", data={"body": FAST}))


def test_a_collection_that_only_a_newer_version_has() -> None:
    with pytest.raises(NotFound, match=r"no collection 'dreams'\. A newer version may have it"):
        transferred("dreams")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("logs/abc/1/0000000000-whole", True),
        ("content/00", True),
        ("uploads/00/1", False),
        ("staging/a name of somebody else", False),
        ("folder/", False),
        ("a\n", False),
    ],
)
def test_which_blobs_are_exported(key: str, expected: bool) -> None:
    assert carried(key) is expected
