"""What the store on SQLite promises beyond the port: its indexes, processes and disk faults."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from xmcloud.adapters.sqlite import SqliteStore, statements
from xmcloud.core import cursors
from xmcloud.core.errors import CorruptStore, InvalidInput, StorageFull, Unavailable
from xmcloud.core.indexes import Index, declared
from xmcloud.core.ports import Document, Filter, JsonObject, Operator, Query, Write

pytestmark = pytest.mark.anyio

HELPER = Path(__file__).with_name("sqlite_process.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path, anyio_backend: str) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


def start(action: str, path: Path, argument: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(HELPER), action, str(path), argument],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


# Indexes


def queries_of(index: Index) -> Iterator[Query]:
    """Each query that the index is declared for, with and without a range, and the counts."""
    *head, (last, direction) = index.fields
    where = tuple(Filter(name, "==", "v") for name, _ in head)
    query = Query(index.collection, where, ((last, direction),))
    yield query
    signs: tuple[Operator, ...] = ("<", "<=", ">", ">=")
    for sign in signs:
        for value in ("v", 5, 0.5):
            yield replace(query, where=(*where, Filter(last, sign, value)))
    between = (Filter(last, ">", 1), Filter(last, "<", 9))
    yield replace(query, where=(*where, *between))


def plan(path: Path, statement: statements.Statement) -> list[str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement[0]}", statement[1]).fetchall()
    connection.close()
    return [row[3] for row in rows]


def walks(path: Path, statement: statements.Statement, equal: set[str], ranged: set[str]) -> bool:
    """Whether one search along an index, narrowed by those columns, is all it takes."""
    (step,) = plan(path, statement)
    return step.startswith("SEARCH") and (
        {f"f_{name}=?" for name in equal} | {f"f_{name}" for name in ranged}
        <= set(step.partition("(")[2].rstrip(")").replace("<", " ").replace(">", " ").split())
    )


@pytest.mark.parametrize(
    "index",
    declared(),
    ids=lambda index: "-".join([index.collection, *(f"{n}_{d}" for n, d in index.fields)]),
)
async def test_every_declared_query_is_one_walk_along_its_index(
    store: SqliteStore, path: Path, index: Index
) -> None:
    *head, (last, direction) = index.fields
    equal = {name for name, _ in head}
    for query in queries_of(index):
        await store.find(query)
        await store.count(query)
        ranged = {last} if len(query.where) > len(head) else set[str]()
        (first,) = statements.page(query)
        assert walks(path, first, equal, ranged)
        assert walks(path, statements.count(query), equal, ranged)
        for value in ("v", 5) if ranged else ("v", 5, 0.5, True):
            document = Document("id", {last: value}, "1")
            try:
                tie, beyond = statements.page(query.page(4, cursors.encode(query, document)))
            except InvalidInput:
                continue
            assert walks(path, tie, {*equal, last}, set())
            assert ("id>?" if direction == "asc" else "id<?") in plan(path, tie)[0]
            assert walks(path, beyond, equal, {last})


@pytest.mark.parametrize(
    "where",
    [
        (Filter("session", "==", "s"),),
        (Filter("session", "==", "s"), Filter("stop_requested", "==", True)),
        (Filter("experiment_id", "==", "e"), Filter("state", "==", "running")),
    ],
)
async def test_equalities_are_one_walk_along_an_index(
    store: SqliteStore, path: Path, where: tuple[Filter, ...]
) -> None:
    query = Query("jobs", where)
    await store.find(query)
    await store.count(query)
    equal = {condition.field for condition in where}
    (first,) = statements.page(query)
    assert walks(path, first, equal, set())
    assert walks(path, statements.count(query), equal, set())
    later = query.page(4, cursors.encode(query, Document("id", {}, "1")))
    (rest,) = statements.page(later)
    assert walks(path, rest, equal, set())
    assert "id>?" in plan(path, rest)[0]


async def test_an_order_alone_needs_no_sort(store: SqliteStore, path: Path) -> None:
    for query in (Query("queues", order=(("priority", "desc"),)), Query("queues")):
        await store.find(query)
        (first,) = statements.page(query)
        (step,) = plan(path, first)
        assert "USING INDEX" in step


async def test_a_field_first_queried_later_finds_older_documents_and_other_writers(
    store: SqliteStore, path: Path
) -> None:
    query = Query("jobs", (Filter("colour", "==", "red"),))
    await store.commit([Write.create("jobs", "old", {"colour": "red"})])
    other = SqliteStore(path)
    assert [d.id for d in (await other.find(query)).documents] == ["old"]
    await store.commit([Write.create("jobs", "new", {"colour": "red"})])
    assert [d.id for d in (await other.find(query)).documents] == ["new", "old"]
    await other.close()


@pytest.mark.parametrize("name", ['a"b', "A", "a.b", "", "a b"])
async def test_only_plain_names_reach_sql(store: SqliteStore, name: str) -> None:
    with pytest.raises(ValueError, match="lower-case name"):
        await store.get(name, ["a"])
    with pytest.raises(ValueError, match="lower-case name"):
        await store.find(Query("jobs", (Filter(name, "==", 1),)))


async def test_a_cursor_of_another_query_is_refused(store: SqliteStore) -> None:
    low = Query("jobs", (Filter("position", "<", 5),), (("position", "asc"),))
    for value in (5, 9, "text"):
        after = cursors.encode(low, Document("a", {"position": value}, "1"))
        with pytest.raises(InvalidInput):
            await store.find(low.page(1, after))


# Operations


async def test_operations_are_counted_as_firestore_bills_them(path: Path) -> None:
    seen: list[tuple[str, int]] = []
    store = SqliteStore(path, lambda kind, count: seen.append((kind, count)))
    query = Query("jobs", (Filter("n", "==", 1),))

    async def cost(operation: object) -> tuple[str, int]:
        assert asyncio.iscoroutine(operation)
        await operation
        (last,) = seen
        seen.clear()
        return last

    writes = [Write.create("jobs", f"{n:04}", {"n": 1}) for n in range(1001)]
    assert await cost(store.apply(writes[:500])) == ("write", 500)
    assert await cost(store.apply(writes[499:501])) == ("write", 1)
    assert await cost(store.commit(writes[501:])) == ("write", 500)
    assert await cost(store.get("jobs", ["0000", "x", "x"])) == ("read", 2)
    assert await cost(store.find(query.page(4, None))) == ("read", 5)
    assert await cost(store.find(Query("jobs", (Filter("n", "==", 2),)))) == ("read", 1)
    assert await cost(store.count(query)) == ("read", 2)
    await store.close()


# Concurrency


async def test_a_failing_commit_spoils_none_that_shares_its_sync(store: SqliteStore) -> None:
    await store.commit([Write.create("jobs", "taken", {})])

    def pair(n: int) -> list[Write]:
        return [
            Write.create("jobs", f"{n}", {}),
            Write.create("jobs", "taken" if n % 2 else f"b{n}", {}),
        ]

    answers = await asyncio.gather(
        *(store.commit(pair(n)) for n in range(100)), return_exceptions=True
    )
    assert [isinstance(answer, Exception) for answer in answers] == [False, True] * 50
    found = await store.get("jobs", [str(n) for n in range(100)])
    assert [document is None for document in found] == [False, True] * 50


async def test_a_cancelled_commit_spoils_no_other(store: SqliteStore) -> None:
    commits = [
        asyncio.ensure_future(store.commit([Write.create("jobs", f"{n}", {})])) for n in range(20)
    ]
    await asyncio.wait(commits[:1])
    commits.append(asyncio.ensure_future(store.commit([Write.create("jobs", "20", {})])))
    commits[20].cancel()
    done = await asyncio.gather(*commits[:20])
    assert done == [["1"]] * 20
    await store.commit([Write.create("jobs", "last", {})])


async def test_processes_lose_none_of_each_others_changes(store: SqliteStore, path: Path) -> None:
    await store.commit([Write.create("jobs", "counter", {"n": 0})])
    processes = [start("increment", path, "50") for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == [""] * 3
    assert [process.returncode for process in processes] == [0] * 3
    (document,) = await store.get("jobs", ["counter"])
    assert document is not None
    assert document.data == {"n": 150}


def test_processes_may_make_the_same_files_at_once(tmp_path: Path) -> None:
    processes = [start("open_new", tmp_path, str(n)) for n in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0] * 4


async def test_every_answered_commit_survives_a_kill(path: Path) -> None:
    process = start("create_pairs", path, "")
    assert process.stdout is not None
    answered = [process.stdout.readline().strip() for _ in range(300)]
    process.send_signal(signal.SIGKILL)
    rest = process.communicate()[0].splitlines(keepends=True)
    answered += [line.strip() for line in rest if line.endswith("\n")]
    store = SqliteStore(path)
    assert None not in await store.get("jobs", answered)
    jobs, sessions = [
        [document.id for document in (await store.find(Query(c, limit=100_000))).documents]
        for c in ("jobs", "sessions")
    ]
    assert jobs == sessions
    await store.close()


async def test_a_long_transaction_of_another_process_is_waited_for(
    store: SqliteStore, path: Path
) -> None:
    await store.commit([Write.create("jobs", "a", {"n": 1})])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    commit = asyncio.ensure_future(store.commit([Write.create("jobs", "b", {})]))
    assert (await store.get("jobs", ["a", "b"]))[1] is None
    assert not commit.done()
    other.execute("COMMIT")
    other.close()
    assert await commit == ["1"]


# Faults


def test_a_file_that_is_no_database_is_named(no_database: Path) -> None:
    with pytest.raises(CorruptStore, match=str(no_database)):
        SqliteStore(no_database)


def damage(path: Path) -> None:
    """All pages but the first."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


async def open_and_read(path: Path) -> None:
    store = SqliteStore(path)
    try:
        await store.get("jobs", ["1"])
    finally:
        await store.close()


async def test_damage_is_named_when_it_is_met(path: Path) -> None:
    store = SqliteStore(path)
    await store.apply([Write.create("jobs", f"{n}", {"body": "x" * 3000}) for n in range(100)])
    await store.close()
    damage(path)
    with pytest.raises(CorruptStore, match=str(path)):
        await open_and_read(path)


async def test_a_document_that_is_no_json_is_named(store: SqliteStore, path: Path) -> None:
    await store.commit([Write.create("targets", "a", {})])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE targets SET data = 'no JSON'")
    other.close()
    with pytest.raises(CorruptStore, match=str(path)):
        await store.get("targets", ["a"])


async def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="folder"):
        SqliteStore(tmp_path / "missing" / "store.db")


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


async def test_a_full_disk_refuses_the_write_and_nothing_else(small_disk: Path) -> None:
    path = small_disk / "store.db"
    store = SqliteStore(path)
    data: JsonObject = {"body": "x" * 20_000}
    await store.commit([Write.create("experiments", "first", data)])
    ballast = small_disk / "ballast"
    fill(ballast)
    with pytest.raises(StorageFull, match=str(path)):
        await store.commit([Write.create("experiments", "second", data)])
    with pytest.raises(StorageFull, match=str(small_disk)):
        SqliteStore(small_disk / "other.db")
    first, second = await store.get("experiments", ["first", "second"])
    assert first is not None
    assert second is None
    ballast.unlink()
    await store.commit([Write.create("experiments", "second", data)])
    await store.close()
