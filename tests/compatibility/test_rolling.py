"""One release takes the place of the other while jobs run, and on what the other left."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.releases import NOW, SNAPSHOT, Release, Site, shell, unpack
from tests.e2e.stack import until
from xmcloud.adapters.sqlite import SqliteStore
from xmcloud.core.migrations import LATEST, SCHEMA, Schema
from xmcloud.core.version import VERSION

GATED = "echo begins; until test -e {gate}; do sleep 0.05; done; echo ends"


def test_control_plane_then_worker_are_upgraded_under_a_job(
    site: Site, old: Release, tmp_path: Path
) -> None:
    """The job's parent, the keeper, stays that of the release before."""
    plane = site.control_plane(old)
    worker = site.worker(old)
    experiment = site.experiment("work")
    (long,) = site.submit(experiment, [shell(GATED.format(gate=tmp_path / "open"))])
    site.until(long, "running")
    site.end(plane)
    site.control_plane(NOW)
    assert site.call("GET", "/health")["version"] == VERSION
    until(lambda: site.job(long)["creator"] == "ada", "the job is migrated")
    (another,) = site.submit(experiment, [shell("echo another")])
    assert site.over(another)["state"] == "completed"
    worker.kill()
    worker.wait()
    site.worker(NOW)
    (tmp_path / "open").touch()
    done = site.over(long)
    assert (done["state"], len(done["attempts"])) == ("completed", 1)
    assert site.output(long) == "begins\nends\n"


def test_what_the_release_before_left_goes_on(site: Site) -> None:
    """All of the snapshot: the queued and the lost job run to their end, the rest is there."""
    unpack(SNAPSHOT, site.home.path)
    site.lease = 2
    site.control_plane(NOW)
    found = {
        each["experiment"]["title"]: each["experiment"]["id"]
        for each in json.loads(site.cli(NOW, "list", "--json"))["experiments"]
    }
    jobs = {title: _jobs(site, id) for title, id in found.items()}
    sweep = jobs["sweep"]
    assert [job["results"] for job in sweep] == [{"loss": 0.1}, {"loss": 0.5}, {}]
    assert [job["state"] for job in sweep] == ["completed", "completed", "failed"]
    assert site.cli(NOW, "logs", sweep[0]["id"]) == "rate 0.1\n"
    assert "Which rate?" in site.cli(NOW, "show", found["sweep"])
    assert [job["creator"] for job in jobs["sweep again"]] == ["grace"] * 3
    assert {job["group"][0]["name"] for job in jobs["group"]} == {"server"}
    _assert_queues(site)
    copy = site.call("POST", f"/experiments/{found['group']}/clone", json={"queue": "default"})
    site.worker(NOW, "default", "nightly")
    site.call("POST", "/queues/nightly/resume", json={"by": "ada"})
    for job in (*_jobs(site, copy["id"]), *jobs["night"], *jobs["running"]):
        assert site.over(job["id"])["state"] == "completed"
    (lost,) = jobs["running"]
    assert site.output(lost["id"]).endswith("attempt 2\n")


def _jobs(site: Site, experiment: str) -> list[dict[str, Any]]:
    return list(site.call("GET", f"/experiments/{experiment}/jobs")["jobs"])


def _assert_queues(site: Site) -> None:
    waiting = site.call("GET", "/queues/default/jobs")["jobs"]
    here = [job["name"] for job in waiting if job["spec"]["pool"] == "elsewhere"]
    assert here == ["third", "first", "second"]
    nightly = site.call("GET", "/queues/nightly")["queue"]
    assert (nightly["paused"], nightly["priority"]) == (True, 7)


@pytest.mark.anyio
async def test_a_store_of_a_newer_release_is_refused(site: Site) -> None:
    site.home.prepare()
    store = SqliteStore(site.home.path / "store.db")
    await store.commit([SCHEMA.create(Schema(version=LATEST + 1, by="9.1.0"))])
    await store.close()
    refused = site.cli(NOW, "up", status=4)
    assert f"xmcloud 9.1.0 has brought this store to schema {LATEST + 1}" in refused
    assert f"this is xmcloud {VERSION}, which knows schemas up to {LATEST}" in refused
