"""Export and import: everything arrives, whole, wherever it goes; and what is broken does not."""

import asyncio
import hashlib
import io
import json
import re
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.functions.api import Api, HeardSignals, new_job, opened_api
from tests.functions.conftest import gcp_plane, sqlite_plane
from tests.functions.transfers import LARGE, Contents, contents, fill, served
from tests.support.clock import START, ManualClock
from xmcloud.core.control.exporting import export_documents
from xmcloud.core.control.importing import begin_import, import_documents
from xmcloud.core.control.plane import ControlPlane
from xmcloud.core.control.sweep import sweep
from xmcloud.core.documents import AUDIT, JOBS, QUEUES
from xmcloud.core.errors import InvalidInput, NotEmpty
from xmcloud.core.migrations import LATEST
from xmcloud.core.models import Job, JobState
from xmcloud.core.ports import Subscription
from xmcloud.core.protocol import Jobs, NewUnit, NewUnits
from xmcloud.core.topics import queue_topic
from xmcloud.core.transfer import ImportDocuments, Manifest, NewImport, StoredDocument, parsed
from xmcloud.xm_cloud import transfer_archive
from xmcloud.xm_cloud.transfer import NotRead, NotWritten, export_to, import_from
from xmcloud.xm_cloud.transfer_archive import ArchiveWriter, DamagedArchive, UnknownFormat
from xmcloud.xm_cloud.transfer_client import TransferClient

pytestmark = pytest.mark.anyio

ARCHIVE = "a" * 64
TOLD = NewImport(version="0.2.0", schema_version=LATEST)


def silent(what: str, done: int, total: int | None) -> None:
    """Nobody looks."""


@dataclass(frozen=True)
class Exported:
    """A file, and what was exported into it."""

    path: Path
    contents: Contents
    running: Job


@asynccontextmanager
async def embedded(home: Path) -> AsyncIterator[Api]:
    """An empty control plane."""
    await asyncio.to_thread(home.mkdir)
    clock, signals = ManualClock(), HeardSignals()
    async with opened_api(sqlite_plane(home, clock, signals), clock, signals, home) as api:
        yield api


async def exported(plane: ControlPlane, path: Path, home: Path) -> Manifest:
    async with served(plane, home) as client:
        return await asyncio.to_thread(export_to, client, path, silent, force=False)


async def imported(plane: ControlPlane, path: Path, home: Path) -> None:
    async with served(plane, home) as client:
        await asyncio.to_thread(import_from, client, path, silent)


@pytest.fixture(scope="module")
async def small(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> Exported:
    """All kinds of documents, and no large blob."""
    home = tmp_path_factory.mktemp("export") / "home"
    async with embedded(home) as api:
        running = await fill(api)
        await api.plane.blobs.delete("content/large")
        await exported(api.plane, home / "all.tar", home)
        return Exported(home / "all.tar", await contents(api.plane), running)


@pytest.fixture
async def empty(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Api]:
    async with embedded(tmp_path / "empty") as api:
        yield api


def without_imports(found: Contents) -> Contents:
    """Without what the audit log says of the import itself."""
    documents, blobs = found
    audit = {
        id: data
        for id, data in documents[AUDIT.name].items()
        if not json.loads(data["body"])["subject"].startswith("imports/")
    }
    return documents | {AUDIT.name: audit}, blobs


@pytest.mark.emulator
async def test_there_and_back(tmp_path: Path, gcp_project: str, anyio_backend: str) -> None:
    """From SQLite and files to Google Cloud's, and from there back: nothing is lost or changed."""
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    async with embedded(tmp_path / "home") as api:
        await fill(api)
        before = await contents(api.plane)
        manifest = await exported(api.plane, first, tmp_path)
    assert before[1]["content/large"] == LARGE
    assert {name: len(found) for name, found in before[0].items()} == manifest.documents
    assert all(manifest.documents.values())
    assert manifest.blobs == len(before[1])
    clock, signals = ManualClock(), HeardSignals()
    plane = gcp_plane(gcp_project, clock, signals)
    async with opened_api(plane, clock, signals, tmp_path) as api:
        await imported(plane, first, tmp_path)
        assert without_imports(await contents(plane)) == before
        await exported(plane, second, tmp_path)
    async with embedded(tmp_path / "other") as api:
        await imported(api.plane, second, tmp_path)
        assert without_imports(await contents(api.plane)) == before


async def test_the_file_is_a_private_tar_that_other_tools_check(small: Exported) -> None:
    assert stat.S_IMODE(small.path.stat().st_mode) == 0o600
    with small.path.open("rb") as file:
        found = {member.name: content.read() for member, content in transfer_archive.members(file)}
    *_, manifest, sums = found
    assert (manifest, sums) == ("manifest.json", "SHA256SUMS")
    assert found.pop(sums).decode().splitlines() == [
        f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in found.items()
    ]
    told = Manifest.model_validate_json(found[manifest])
    lines = [data for name, data in found.items() if name.startswith("documents/jobs/")]
    assert sum(page.count(b"\n") for page in lines) == told.documents["jobs"] == 6
    assert not [name for name in found if "uploads" in name]
    assert re.search(rb"xmc_[a-z2-7]{16}_", b"".join(found.values())) is None


async def test_what_ran_runs_again_and_what_waits_is_offered(small: Exported, empty: Api) -> None:
    plane, clock = empty.plane, empty.clock
    alarms: list[str] = []
    plane = replace(plane, alarm=lambda subject, due: alarms.append(subject))
    local = Subscription(queue_topic("default"), "local")
    await plane.queue.subscribe([local])
    await imported(plane, small.path, small.path.parent)
    delivered = await plane.queue.pull([local], 10, 0)
    waits = [j for j in small.contents[0]["jobs"].values() if j["state"] == "queued"]
    assert {d.message.body for d in delivered} == {
        j["id"] for j in waits if j["queue"] == "default"
    }
    assert alarms == ["import"]
    await sweep(plane)
    assert (await JOBS.get(plane.store, small.running.id)).item.state is JobState.RUNNING
    clock.advance(plane.lease)
    await sweep(plane)
    again = (await JOBS.get(plane.store, small.running.id)).item
    assert again.state is JobState.QUEUED
    assert "its lease ran out" in again.reason.message


class CutShort(TransferClient):
    """Is killed before so many requests are sent."""

    def __init__(self, url: str, token: str, requests: int) -> None:
        super().__init__(url, token)
        self.left = requests

    def _request(self, *words: Any, **named: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super()._request(*words, **named)


async def test_an_import_that_was_cut_short_is_run_again(small: Exported, empty: Api) -> None:
    """Wherever it was cut, and cut again; what is there is not sent or changed again."""
    home, token = small.path.parent, empty.http.headers["Authorization"].removeprefix("Bearer ")
    cuts = 0
    async with served(empty.plane, home) as client:
        for requests in range(3, 100, 6):
            with CutShort(client.url, token, requests) as cut:
                try:
                    await asyncio.to_thread(import_from, cut, small.path, silent)
                except KeyboardInterrupt:
                    cuts += 1
                    continue
            break
        assert cuts >= 3
        assert without_imports(await contents(empty.plane)) == small.contents
        _, again = await asyncio.to_thread(import_from, client, small.path, silent)
    assert again.resumed
    assert again.finished_at == START


async def test_only_into_an_empty_control_plane(small: Exported, empty: Api) -> None:
    experiment = await empty.experiment()
    with pytest.raises(NotEmpty, match=f"has experiments, {experiment.id} is one"):
        await imported(empty.plane, small.path, small.path.parent)
    assert (await contents(empty.plane))[0]["queues"] == {}


async def test_not_into_half_of_another_import(small: Exported, empty: Api) -> None:
    await begin_import(empty.plane, ARCHIVE, TOLD)
    id, data = next(iter(small.contents[0]["experiments"].items()))
    experiment = StoredDocument(id=id, data=data)
    page = ImportDocuments(collection="experiments", documents=(experiment,))
    await import_documents(empty.plane, ARCHIVE, page)
    with pytest.raises(NotEmpty, match="another archive, begun 2030-01-01 00:00 UTC, is not"):
        await imported(empty.plane, small.path, small.path.parent)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda data: data[: len(data) // 2],
    "no checksums": lambda data: data[:-11_000],
    "a heading": lambda data: data[:512],
    "nothing": lambda data: b"",
    "no tar": lambda data: b"no tar" * 1000,
    "no beginning": lambda data: data[512 * 20 :],
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_file_that_is_not_whole(
    small: Exported, empty: Api, tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "damaged.tar"
    path.write_bytes(DAMAGES[damage](small.path.read_bytes()))
    with pytest.raises(DamagedArchive, match=r"Nothing was imported\."):
        await imported(empty.plane, path, tmp_path)
    assert not (await begin_import(empty.plane, ARCHIVE, TOLD)).resumed


def test_a_byte_that_flipped_is_found_wherever_it_is(small: Exported) -> None:
    """Or it was padding, and nothing that is imported changed."""
    whole = small.path.read_bytes()
    expected = parts(whole)
    found = 0
    for place in range(0, len(whole), 211):
        flipped = bytearray(whole)
        flipped[place] ^= 0x10
        if damaged(bytes(flipped)):
            found += 1
        else:
            assert parts(bytes(flipped)) == expected, place
    assert found > 100


def damaged(archive: bytes) -> bool:
    try:
        transfer_archive.check(io.BytesIO(archive), lambda done: None)
    except (DamagedArchive, UnknownFormat):
        return True
    return False


def parts(archive: bytes) -> dict[str, bytes]:
    file = io.BytesIO(archive)
    return {member.name: content.read() for member, content in transfer_archive.members(file)}


def rewritten(small: Exported, path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """An archive with other members and checksums that are right."""
    made = {name: change(name, data) for name, data in parts(small.path.read_bytes()).items()}
    del made["SHA256SUMS"]
    manifest = made.pop("manifest.json")
    with path.open("wb") as file:
        writer = ArchiveWriter(file)
        for name, data in made.items():
            writer.add(name, len(data), [data])
        writer.finish(manifest.decode())
        writer.close()
    return path


async def test_another_format(small: Exported, empty: Api, tmp_path: Path) -> None:
    def newer(name: str, data: bytes) -> bytes:
        return data.replace(b'"format": 1', b'"format": 2')

    path = rewritten(small, tmp_path / "newer.tar", newer)
    with pytest.raises(UnknownFormat, match=r"has format 2, written by xmcloud [\d.]+\. This"):
        await imported(empty.plane, path, tmp_path)


async def test_documents_of_a_newer_schema(small: Exported, empty: Api, tmp_path: Path) -> None:
    def newer(name: str, data: bytes) -> bytes:
        return data.replace(b'"schema_version": ', b'"schema_version": 99')

    path = rewritten(small, tmp_path / "newer.tar", newer)
    with pytest.raises(UnknownFormat, match=rf"of schema 99\d, .* up to {LATEST}: install"):
        await imported(empty.plane, path, tmp_path)
    told = {"version": "9.1", "schema_version": LATEST + 1}
    refused = await empty.refused("POST", f"/imports/{ARCHIVE}", 422, told)
    assert refused.remedy == f"It must be at most {LATEST}: install xmcloud 9.1, or a newer one."


async def test_documents_of_an_earlier_schema(small: Exported, empty: Api, tmp_path: Path) -> None:
    """They are brought to this one's, with what was imported before them."""

    def earlier(name: str, data: bytes) -> bytes:
        if name == "manifest.json":
            return re.sub(rb'"schema_version": \d+', b'"schema_version": 0', data)
        if "/experiments/" in name:
            return data.replace(rb"\"creator\":\"unknown\"", rb"\"creator\":\"ada\"")
        if "/jobs/" in name:
            data = data.replace(rb"\"creator\":\"unknown\",", b"")
            return data.replace(b'"project":"default","creator":"unknown",', b"")
        return data

    path = rewritten(small, tmp_path / "earlier.tar", earlier)
    await imported(empty.plane, path, tmp_path)
    job = (await JOBS.get(empty.plane.store, small.running.id)).item
    assert job == small.running.evolve(creator="ada")


async def test_a_document_that_is_broken(small: Exported, empty: Api, tmp_path: Path) -> None:
    def broken(name: str, data: bytes) -> bytes:
        draft, asleep = rb"\"state\":\"draft\"", rb"\"state\":\"asleep\""
        return data.replace(draft, asleep) if "/jobs/" in name else data

    (draft,) = [j for j in small.contents[0]["jobs"].values() if j["state"] == "draft"]
    path = rewritten(small, tmp_path / "broken.tar", broken)
    with pytest.raises(InvalidInput, match=rf"^jobs/{draft['id']} is .*\(state: "):
        await imported(empty.plane, path, tmp_path)
    documents, blobs = await contents(empty.plane)
    assert (any(documents.values()), blobs) == (False, {})


async def test_no_half_file_is_left(small: Exported, empty: Api, tmp_path: Path) -> None:
    token = empty.http.headers["Authorization"].removeprefix("Bearer ")
    folder = tmp_path / "exports"
    folder.mkdir()
    path = folder / "all.tar"
    async with served(empty.plane, tmp_path) as client:
        with CutShort(client.url, token, 5) as cut, pytest.raises(KeyboardInterrupt):
            await asyncio.to_thread(export_to, cut, path, silent, force=False)
        assert list(folder.iterdir()) == []
        (folder / "all.tar.partial").write_text("of one that was killed")
        await asyncio.to_thread(export_to, client, path, silent, force=False)
        assert list(folder.iterdir()) == [path]
        with pytest.raises(NotWritten, match="there already"):
            await asyncio.to_thread(export_to, client, path, silent, force=False)
        await asyncio.to_thread(export_to, client, path, silent, force=True)
        with pytest.raises(NotWritten, match="No such file or directory"):
            await asyncio.to_thread(export_to, client, folder / "no/x", silent, force=False)
        with pytest.raises(NotRead, match="No such file or directory"):
            await asyncio.to_thread(import_from, client, folder / "no", silent)


async def test_a_group_is_on_one_page(empty: Api) -> None:
    experiment = await empty.experiment()
    path = f"/experiments/{experiment.id}/units"
    group = NewUnit(jobs=tuple(new_job(f"job-{number}") for number in range(4)))
    alone = NewUnit(jobs=(new_job(),))
    for units in [(alone,) * 197, (group,), (alone,) * 5]:
        await empty.post(Jobs, path, NewUnits(units=units), 201)
    first = await export_documents(empty.plane, "jobs", None)
    second = await export_documents(empty.plane, "jobs", first.cursor)
    assert (len(first.documents), len(second.documents), second.cursor) == (197, 9, None)
    assert len({each.id for each in (*first.documents, *second.documents)}) == 206


async def test_no_job_of_a_group_is_there_without_the_rest(small: Exported, empty: Api) -> None:
    jobs = [StoredDocument(id=i, data=data) for i, data in small.contents[0]["jobs"].items()]
    group = [each for each in jobs if each.data["queue"] == "nightly"]
    alone = next(each for each in jobs if each.data["state"] == "draft")
    await begin_import(empty.plane, ARCHIVE, TOLD)
    await empty.plane.store.commit([JOBS.create(parsed(JOBS, group[0]))])
    page = ImportDocuments(collection="jobs", documents=(*group, alone))
    done = await import_documents(empty.plane, ARCHIVE, page)
    assert (len(group), done.created, done.kept) == (2, 1, 2)
    assert await JOBS.get_many(empty.plane.store, [group[1].id]) == [None]


async def test_a_page_is_no_larger_than_an_answer_may_be(empty: Api) -> None:
    job = await empty.job()
    reason = job.reason.model_copy(update={"message": "x" * 500_000})
    for unit in range(2, 20):
        large = {"id": f"{unit:a>16}".replace("0", "o"), "unit": unit, "reason": reason}
        await empty.plane.store.commit([JOBS.create(job.model_copy(update=large))])
    first = await export_documents(empty.plane, "jobs", None)
    second = await export_documents(empty.plane, "jobs", first.cursor)
    assert (len(first.documents), len(second.documents), second.cursor) == (16, 3, None)
    assert len(first.model_dump_json()) < 9 * 1024 * 1024


async def test_what_the_control_plane_had_by_itself_makes_way(small: Exported, empty: Api) -> None:
    await empty.call("POST", "/queues/default/pause")
    await empty.call("POST", "/queues", {"name": "nightly", "priority": 1}, 201)
    await imported(empty.plane, small.path, small.path.parent)
    nightly = (await QUEUES.get(empty.plane.store, "nightly")).item
    assert nightly.priority == 7
    assert (await QUEUES.get(empty.plane.store, "default")).item.paused


async def test_nothing_is_taken_outside_an_import(small: Exported, empty: Api) -> None:
    id, data = next(iter(small.contents[0]["queues"].items()))
    queue = {"id": id, "data": data}
    page = {"collection": "queues", "documents": [queue]}
    blob = {"params": {"key": "content/x", "size": 1}, "content": b"x"}
    base = f"/imports/{ARCHIVE}"
    await empty.refused("POST", f"{base}/finish", 404, {})
    for began in (False, True):
        if began:
            await empty.call("POST", base, TOLD)
            await empty.call("POST", f"{base}/documents", page)
            await empty.call("PUT", f"{base}/blob", status=201, **blob)
            await empty.refused("POST", f"{base}/documents", 404, {**page, "collection": "x"})
            await empty.refused(
                "POST", f"{base}/documents", 422, {**page, "documents": [queue] * 2}
            )
            await empty.refused("PUT", f"/imports/{'b' * 64}/blob", 404, **blob)
            await empty.call("POST", f"{base}/finish", {})
            await empty.call("POST", f"{base}/finish", {})
        await empty.refused("POST", f"{base}/documents", 404, page)
        await empty.refused("PUT", f"{base}/blob", 404, **blob)


@pytest.mark.parametrize("key", ["uploads/x/1", "../token", "a/../b", "", "a/"])
async def test_a_blob_that_no_export_has(empty: Api, key: str) -> None:
    await begin_import(empty.plane, ARCHIVE, TOLD)
    query = {"key": key, "size": 1}
    await empty.refused("PUT", f"/imports/{ARCHIVE}/blob", 422, params=query, content=b"x")


async def test_pieces_of_a_blob_may_come_again_and_none_may_be_missing(empty: Api) -> None:
    await begin_import(empty.plane, ARCHIVE, TOLD)
    path = f"/imports/{ARCHIVE}/blob"

    async def put(offset: int, data: bytes, status: int = 201) -> None:
        query = {"key": "content/x", "offset": offset, "size": 6}
        await empty.call("PUT", path, status=status, params=query, content=data)

    await put(4, b"56", 422)
    await put(0, b"12")
    await put(2, b"34")
    await put(2, b"34")
    await put(4, b"567", 422)
    for _ in range(2):
        await put(4, b"56")
        assert await empty.plane.blobs.get("content/x") == b"123456"
    assert [key for key, _ in await empty.plane.blobs.list("")] == ["content/x"]
