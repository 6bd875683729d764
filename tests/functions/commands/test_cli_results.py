"""What a job came to, shown and fetched from a real control plane."""

import hashlib
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import JsonValue

from tests.functions.commands.running import answer, xmcloud
from tests.functions.xm_cloud.server import HEADERS
from xmcloud.cli import result_tables, results
from xmcloud.cli.exit_codes import ExitCode
from xmcloud.core.models import Job
from xmcloud.core.protocol import NewExperiment, NewJob, NewUnit, NewUnits
from xmcloud.core.series import Table
from xmcloud.core.specs import Argument, Command, JobSpec
from xmcloud.core.worker_protocol import Lease
from xmcloud.xm_cloud.client import Client

LARGE = random.Random(1).randbytes(9 * 1024 * 1024)


def completed(client: Client, *came_to: dict[str, JsonValue]) -> list[Job]:
    """Jobs of one experiment with these results, as a worker tells them."""
    experiment = client.create_experiment(NewExperiment(title="sweep")).id
    units = []
    for rate, _ in enumerate(came_to, 1):
        arguments = (Argument(name="lr", value=rate / 10), Argument(name="opt", value="adam"))
        spec = JobSpec(executable=Command(command=("train",)), arguments=arguments)
        units.append(NewUnit(jobs=(NewJob(name="train", spec=spec),)))
    jobs = client.add_units(experiment, NewUnits(units=tuple(units)))
    with httpx.Client(base_url=f"{client.url}/v1", headers=HEADERS) as http:
        told = {"slots": 1, "resources": {}, "host": "box", "version": "1"}
        opened = http.post("/workers/ant/sessions", json=told).raise_for_status().content
        session = Lease.model_validate_json(opened).session.id
        for job, found in zip(jobs, came_to, strict=True):
            _complete(http, session, job.id, found)
    return [client.job(job.id) for job in jobs]


def _complete(http: httpx.Client, session: str, id: str, found: dict[str, JsonValue]) -> None:
    attempt = {"job_id": id, "fence": 1}
    ended = {"outcome": "completed", "reason": {"code": "exited", "message": "ok"}}
    claim = {"slots": 1, "queues": ["default"], "resources": {}, "only": id}
    reports = [
        {"event": "started", **attempt, "at": datetime.now(UTC).isoformat()},
        {"event": "finished", **attempt, **ended, "results": found},
    ]
    for body in ({"claim": claim}, {"reports": reports}):
        http.post(f"/sessions/{session}/sync", json=body).raise_for_status()


def stored(client: Client, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    client.put_blob(digest, content)
    return digest


def logged(client: Client, points: int = 4) -> dict[str, Any]:
    """Results of a run that logged a series."""
    table = Table()
    records = b"".join(table.record(("loss", step, step / 2, step)) for step in range(points))
    blobs = {"points": stored(client, records), "names": stored(client, table.names)}
    return {"series": dict(table.glance()), "blobs": blobs}


def files(client: Client, **contents: bytes) -> dict[str, JsonValue]:
    return {"blobs": {name: stored(client, content) for name, content in contents.items()}}


def test_a_job_as_a_person_reads_it(client: Client) -> None:
    told = logged(client)
    told["blobs"] |= {"model": stored(client, bytes(3_000_000)), "gone": "0" * 64}
    told |= {"summary": {"best": 0.776869}, "confusion": [[1, 2], [3, 4]]}
    told |= {"inputs": {"data": {"path": "/data", "size": 8, "digest": "0" * 64}}}
    (job,) = completed(client, told)
    shown = xmcloud("show", job.id)
    assert shown.stdout.split("\n\n")[2:] == [
        "RESULT     VALUE\nconfusion  [[1, 2], [3, 4]]\nbest       0.77687",
        "SERIES  OVER TIME  LAST  MIN  MAX  POINTS\nloss    ▁▃▆█       1.5   0    1.5  4",
        "FILE   SIZE\nmodel  3.0 MB\ngone   not stored any more",
        "INPUT  PATH   SIZE\ndata   /data  8 B\n",
    ]
    assert f"xmcloud download {job.id[:8]}" in shown.stderr
    assert answer("show", job.id)["results"] == told


def test_points_that_are_too_many_to_look_at_or_gone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, gone = logged(client, 5), logged(client)
    gone["blobs"]["points"] = "0" * 64
    jobs = completed(client, many, gone)
    monkeypatch.setattr(results, "LARGEST_BYTES", 5 * 32 - 1)
    for job in jobs:
        assert "SERIES  LAST  MIN  MAX  POINTS\n" in xmcloud("show", job.id).stdout


def test_results_that_were_cut_are_shown_whole(client: Client) -> None:
    whole = {"a": 1, "late": "one"}
    digests = [stored(client, json.dumps(whole).encode()), stored(client, b"[1]"), "0" * 64]
    cut: list[dict[str, JsonValue]] = [{"a": 1, "cut": True, "whole": each} for each in digests]
    jobs = completed(client, *cut)
    assert "late    one" in xmcloud("show", jobs[0].id).stdout
    for job in jobs[1:]:
        shown = xmcloud("show", job.id)
        assert "RESULT  VALUE\na       1\n" in shown.stdout
        assert "There was more" in shown.stderr


def test_of_many_files_some_are_shown(client: Client) -> None:
    names = [f"f{number}" for number in range(result_tables.SHOWN_FILES + 2)]
    (job,) = completed(client, files(client, **dict.fromkeys(names, b"x")))
    shown = xmcloud("show", job.id)
    assert (f"\n{names[-3]} " in shown.stdout, f"\n{names[-2]} " in shown.stdout) == (True, False)
    assert f"2 more files: xmcloud download {job.id[:8]} --list" in shown.stderr


def test_jobs_of_a_sweep_beside_each_other(client: Client) -> None:
    jobs = completed(client, {"accuracy": 0.5}, {"accuracy": 0.75})
    _, listed, table = xmcloud("show", jobs[0].experiment_id).stdout.split("\n\n")
    assert "accuracy" not in listed
    assert table == "UNIT  LR   ACCURACY\n1     0.1  0.5\n2     0.2  0.75\n"
    (alone,) = completed(client, {"accuracy": 0.5})
    assert xmcloud("show", alone.experiment_id).stdout.endswith("accuracy=0.5\n")


def test_files_are_fetched_once(client: Client, tmp_path: Path) -> None:
    (job,) = completed(client, files(client, **{"model": LARGE, "plots/a": b"", "../b": b"b"}))
    folder = job.id[:8]
    paths = [f"{folder}/{name}" for name in ("model", "plots/a", "b")]
    for _ in range(2):
        assert xmcloud("download", job.id).stdout.splitlines() == paths
    found = {str(p.relative_to(tmp_path)): p for p in tmp_path.rglob("*") if p.is_file()}
    assert sorted(found) == sorted(paths)
    assert [found[path].read_bytes() for path in paths] == [LARGE, b"", b"b"]


def test_some_files_and_another_folder(client: Client) -> None:
    (job,) = completed(client, files(client, **{"model": b"m", "plots/a": b"a", "plots/b": b"b"}))
    told = answer("download", job.experiment_id, "plots", "--to", "x/y")
    assert [(each["path"], each["size"]) for each in told["files"]] == [
        ("x/y/plots/a", 1),
        ("x/y/plots/b", 1),
    ]
    assert sorted(p.name for p in Path().rglob("*") if p.is_file()) == ["a", "b"]
    refused = xmcloud("download", job.id, "plot", status=ExitCode.REFUSED)
    assert "The job has: model, plots/a, plots/b." in refused.stderr


def test_nothing_is_overwritten_unless_it_is_wanted(client: Client) -> None:
    (job,) = completed(client, files(client, a=b"new", b=b"new"))
    Path("b").write_text("old")
    refused = xmcloud("download", job.id, "--to", ".", status=ExitCode.REFUSED)
    assert "b is there already and is not the same" in refused.stderr
    assert (Path("a").exists(), Path("b").read_text()) == (False, "old")
    xmcloud("download", job.id, "--to", ".", "--force")
    assert (Path("a").read_text(), Path("b").read_text()) == ("new", "new")


def test_what_is_there_is_listed(client: Client) -> None:
    told = logged(client)
    told["blobs"]["model"] = digest = stored(client, b"m")
    job, bare = completed(client, told, {})
    listed = xmcloud("download", job.id, "--list")
    assert listed.stdout.split() == ["FILE", "SIZE", "SHA-256", "model", "1", "B", digest]
    assert "1 series:" in listed.stderr
    assert answer("download", job.id, "--list")["files"] == [
        {"name": "model", "digest": digest, "size": 1, "path": None}
    ]
    assert "has stored no files" in xmcloud("download", bare.id, "--list").stderr
    assert "It has stored none" in xmcloud("download", bare.id, status=ExitCode.REFUSED).stderr
    assert not list(Path().iterdir())
    xmcloud("download", job.id, "--list", "--force", status=ExitCode.USAGE)


def test_series_as_a_table_of_their_points(client: Client) -> None:
    job, bare = completed(client, logged(client, 2), {})
    for _ in range(2):
        assert xmcloud("download", job.id, "--points", "--to", "x").stdout == "x/points.csv\n"
    assert Path("x/points.csv").read_text().splitlines() == [
        "series,step,value,time",
        "loss,0,0.0,1970-01-01T00:00:00.000000+00:00",
        "loss,1,0.5,1970-01-01T00:00:01.000000+00:00",
    ]
    Path("x/points.csv").write_text("mine")
    xmcloud("download", job.id, "--points", "--to", "x", status=ExitCode.REFUSED)
    assert [(p.name, p.read_text()) for p in Path("x").iterdir()] == [("points.csv", "mine")]
    refused = xmcloud("download", bare.id, "--points", status=ExitCode.REFUSED)
    assert "It has logged none" in refused.stderr


def test_damaged_and_lost_content_leaves_no_file(client: Client, folder: Path) -> None:
    (job,) = completed(client, files(client, a=b"content"))
    digest = hashlib.sha256(b"content").hexdigest()
    (path,) = [p for p in (folder / "blobs").rglob("*") if p.name == digest]
    path.write_bytes(b"CONTENT")
    damaged = xmcloud("download", job.id, status=ExitCode.UNREACHABLE)
    assert "'a' arrived damaged" in damaged.stderr
    path.unlink()
    lost = xmcloud("download", job.id, status=ExitCode.REFUSED)
    assert "It was deleted after the job had stored it" in lost.stderr
    assert [p for p in Path().rglob("*") if p.is_file()] == []
